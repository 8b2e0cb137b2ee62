/** Tokens as text, each in its colour; of a hundred thousand, those that are seen. */
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { DrawnLines } from "./drawn-lines.ts";
import "./install-colours.ts";
import { layLines, lineOf, neighbour } from "./lines.ts";
import { colourClass, type Quantity, type Reach } from "./quantity.ts";
import type { Range } from "./reply-ranges.ts";
import { useSeenLines } from "./seen-lines.ts";
import { type Selection, tokenAt } from "./selection.ts";
import type { Spelling } from "./spelling.ts";
import "./token.css";
import type { Tokens } from "./tokens.ts";

/** As token.css has it. */
const lineHeight = 24;

export interface TokenLook {
  tokens: Tokens;
  spelling: Spelling;
  /** Undefined: no colours. */
  colour: { quantity: Quantity; reach: Reach } | undefined;
  boundaries: boolean;
  special: boolean;
}

interface Props {
  look: TokenLook;
  range: Range;
  selection: Selection;
  /** Of the block, for whoever hears it. */
  label: string;
  /** The id of the panel that has the numbers. */
  panel: string;
}

export function TokenLines({ look, range, selection, label, panel }: Props) {
  const { tokens, spelling, colour, boundaries, special } = look;
  const [from, to] = range;
  const block = useRef<HTMLDivElement>(null);
  const columns = useColumns(block);
  const hidden = (token: number) => !special && spelling.isSpecial(token);
  const lines = useMemo(
    () => layLines([from, to], columns, (token) => spelling.shown(token, boundaries), hidden),
    [spelling, from, to, columns, boundaries, special],
  );
  const holder = useRef<HTMLDivElement>(null);
  const drawn = useRef<DrawnLines>(undefined);
  const marked = useRef<HTMLElement[]>([]);
  const mark = () => {
    if (drawn.current) marked.current = markChosen(drawn.current, selection.chosen.peek(), marked.current, panel);
  };

  const draw = useCallback(
    (first: number, end: number) => {
      drawn.current!.draw(first, end, (index, put) => {
        for (let token = lines.from[index]!; token < lines.to[index]!; token++) {
          if (hidden(token)) continue;
          const { text, kind } = spelling.shown(token, boundaries);
          const paint = colour ? colourClass(colour.quantity, colour.reach, tokens, token) : "";
          const clipped = tokens.clipped?.[token] === 1 ? " clipped" : "";
          put(token, text, `token ${kind} ${paint}${clipped}`);
        }
      });
      mark();
    },
    [lines, colour?.quantity, colour?.reach, panel],
  );
  useLayoutEffect(() => {
    drawn.current ??= new DrawnLines(holder.current!, lineHeight);
    drawn.current.forget();
  }, [draw]);
  useSeenLines(block, lines.from.length, lineHeight, draw);
  useEffect(() => selection.chosen.subscribe(mark), [selection, panel]);

  // A token that the address named is brought into sight once the lines are laid out as wide as they will be.
  const laid = useRef(lines);
  laid.current = lines;
  useEffect(() => {
    const token = selection.chosen.peek();
    if (token === undefined || token < from || token >= to) return;
    const frame = requestAnimationFrame(() => showLine(block.current, lineOf(laid.current, token), panel));
    return () => cancelAnimationFrame(frame);
  }, [from, to]);

  const moveTo = (token: number) => {
    selection.pointed.value = undefined;
    selection.chosen.value = token;
    showLine(block.current, lineOf(lines, token), panel);
    focusWhenDrawn(drawn.current, token);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const at = tokenAt(event.target);
    if (at === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = neighbour(event.key, at, lines, range, hidden);
    if (next === undefined) return;
    event.preventDefault();
    moveTo(next);
  };
  return (
    <div
      ref={block}
      class={`token-lines ${boundaries ? "with-boundaries" : ""}`}
      role="listbox"
      aria-label={label}
      aria-orientation="horizontal"
      style={{ height: `${lines.from.length * lineHeight}px` }}
      onKeyDown={onKeyDown}
      onFocusIn={(event) => {
        selection.chosen.value = tokenAt(event.target) ?? selection.chosen.value;
      }}
      onClick={(event) => {
        const token = tokenAt(event.target);
        if (token !== undefined) moveTo(token);
      }}
      // Not "over": a token that scrolls under a pointer at rest is not pointed at.
      onPointerMove={(event) => {
        if (event.pointerType === "mouse") selection.pointed.value = tokenAt(event.target);
      }}
      onPointerLeave={() => {
        selection.pointed.value = undefined;
      }}
    >
      <span class="token-probe" aria-hidden="true" />
      <div ref={holder} role="presentation" />
    </div>
  );
}

/** How many characters fit into a line of the block. */
function useColumns(block: { current: HTMLElement | null }): number {
  const [columns, setColumns] = useState(80);
  useLayoutEffect(() => {
    const element = block.current!;
    const measure = () => {
      const wide = element.querySelector<HTMLElement>(".token-probe")?.getBoundingClientRect().width ?? 0;
      const room = element.clientWidth;
      // The probe is a hundred characters wide. Folded away, it has no width.
      if (wide > 0 && room > 0) setColumns(Math.max(12, Math.floor((room / wide) * 100) - 1));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return columns;
}

/** The chosen token can be tabbed to; where it is not among those drawn, the first one. Answers with what it marked, to be undone. */
function markChosen(
  drawn: DrawnLines,
  chosen: number | undefined,
  before: readonly HTMLElement[],
  panel: string,
): HTMLElement[] {
  for (const old of before) {
    old.tabIndex = -1;
    old.classList.remove("chosen");
    old.removeAttribute("aria-selected");
    old.removeAttribute("aria-describedby");
  }
  const own = chosen === undefined ? null : drawn.token(chosen);
  if (own) {
    own.classList.add("chosen");
    own.setAttribute("aria-selected", "true");
    own.setAttribute("aria-describedby", panel);
  }
  const stop = own ?? drawn.first();
  if (!stop) return [];
  stop.tabIndex = 0;
  return [stop];
}

/** Brings a line into the window, with a little around it: below what sticks to its top, above a panel that covers its end. */
function showLine(block: HTMLElement | null, line: number, panel: string): void {
  if (!block) return;
  const top = block.getBoundingClientRect().top + line * lineHeight;
  const box = document.getElementById(panel)?.getBoundingClientRect();
  const covers = box !== undefined && box.width > innerWidth / 2;
  const [above, below] = [140, (covers ? box.top : innerHeight) - 2 * lineHeight];
  if (top < above) scrollBy(0, top - above - lineHeight);
  else if (top > below) scrollBy(0, top - below + lineHeight);
}

/** A line that was not seen is drawn in the frame after the scroll. */
function focusWhenDrawn(drawn: DrawnLines | undefined, token: number, tries = 5): void {
  const element = drawn?.token(token);
  if (element) element.focus({ preventScroll: true });
  else if (drawn && tries > 0) requestAnimationFrame(() => focusWhenDrawn(drawn, token, tries - 1));
}
