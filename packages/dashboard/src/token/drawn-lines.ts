/**
 * Lines of tokens as elements of the page, used again once they have left the window: a scroll makes no elements, and leaves none whose
 * collection would take longer than a frame. They stand in the document as they are read, for whoever selects, hears or tabs through them.
 */
/** Puts the next token of a line down. */
export type PutToken = (token: number, text: string, className: string) => void;

export class DrawnLines {
  readonly #holder: HTMLElement;
  readonly #lineHeight: number;
  /** Lines [first, first + lines.length) stand in the holder. */
  #first = 0;
  #lines: HTMLElement[] = [];
  /** Not in the document. */
  readonly #spare: { lines: HTMLElement[]; tokens: HTMLElement[] } = { lines: [], tokens: [] };

  constructor(holder: HTMLElement, lineHeight: number) {
    this.#holder = holder;
    this.#lineHeight = lineHeight;
  }

  /** Lines [first, end) and no others; those that stand there already stay as they are. */
  draw(first: number, end: number, line: (index: number, put: PutToken) => void): void {
    const old = { first: this.#first, end: this.#first + this.#lines.length };
    const kept = { first: Math.max(first, old.first), end: Math.min(end, old.end) };
    if (kept.first >= kept.end) [kept.first, kept.end] = [old.end, old.end];
    const [before, after] = [this.#lines.slice(0, kept.first - old.first), this.#lines.slice(kept.end - old.first)];
    const free = [...before, ...after];
    const staying = this.#lines.slice(kept.first - old.first, kept.end - old.first);
    const put = (index: number, next: HTMLElement | null) => {
      const element = free.pop() ?? this.#spare.lines.pop() ?? newLine();
      this.#fill(element, (token) => line(index, token));
      element.style.top = `${index * this.#lineHeight}px`;
      this.#holder.insertBefore(element, next);
      return element;
    };
    const none = staying.length === 0;
    const above: HTMLElement[] = [];
    for (let i = first; i < (none ? end : kept.first); i++) above.push(put(i, staying[0] ?? null));
    const below: HTMLElement[] = [];
    if (!none) for (let i = kept.end; i < end; i++) below.push(put(i, null));
    for (const element of free) {
      element.remove();
      this.#spare.lines.push(element);
    }
    this.#lines = [...above, ...staying, ...below];
    this.#first = first;
  }

  /** What stood there is drawn anew the next time. */
  forget(): void {
    for (const element of this.#lines) element.remove();
    this.#spare.lines.push(...this.#lines);
    this.#lines = [];
  }

  token(token: number): HTMLElement | null {
    return this.#holder.querySelector<HTMLElement>(`[data-token="${token}"]`);
  }

  first(): HTMLElement | null {
    return this.#holder.querySelector<HTMLElement>(".token");
  }

  #fill(element: HTMLElement, line: (put: PutToken) => void): void {
    let at = element.firstElementChild as HTMLElement | null;
    line((token, text, className) => {
      const own = at ?? element.appendChild(this.#spare.tokens.pop() ?? newToken());
      own.className = className;
      own.setAttribute("data-token", String(token));
      (own.firstChild as Text).data = text;
      at = own.nextElementSibling as HTMLElement | null;
    });
    while (at) {
      const next = at.nextElementSibling as HTMLElement | null;
      at.remove();
      this.#spare.tokens.push(at);
      at = next;
    }
  }
}

function newLine(): HTMLElement {
  const line = document.createElement("div");
  line.className = "token-line";
  line.setAttribute("role", "presentation");
  return line;
}

function newToken(): HTMLElement {
  const token = document.createElement("span");
  token.setAttribute("role", "option");
  token.tabIndex = -1;
  token.append("");
  return token;
}
