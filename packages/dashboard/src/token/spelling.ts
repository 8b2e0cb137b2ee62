/** What tokens show: their text, made visible; of bytes that are no whole character, the character they make together. */
import { visible } from "../view/parts/visible.ts";
import type { Tokens } from "./tokens.ts";

export interface Shown {
  text: string;
  /** Of fixed-width characters. */
  columns: number;
  /** Line feeds it ends with. */
  breaks: number;
  /** A line may begin with it. */
  opens: boolean;
  kind: "text" | "special" | "bytes" | "unknown";
}

/** Bytes of consecutive tokens, as characters. */
interface Joined {
  /** What is seen of the token: characters that begin in it. */
  text: string;
  /** All characters it has a byte of. */
  part: string;
}

export class Spelling {
  readonly #tokens: Tokens;
  readonly #joined: ReadonlyMap<number, Joined>;
  /** By id, since most are seen many times. */
  readonly #seen = { true: new Map<number, Shown>(), false: new Map<number, Shown>() };

  constructor(tokens: Tokens) {
    this.#tokens = tokens;
    this.#joined = joinBytes(tokens);
  }

  /** `boundaries`: as a token of its own, its spaces visible and its bytes as hex. */
  shown(token: number, boundaries: boolean): Shown {
    const id = this.#tokens.ids[token]!;
    const joined = this.#joined.get(token);
    if (joined && !boundaries) return shownAs(joined.text, "bytes", boundaries);
    const cache = this.#seen[`${boundaries}`];
    const known = cache.get(id);
    if (known) return known;
    const made = this.#make(id, boundaries);
    cache.set(id, made);
    return made;
  }

  #make(id: number, boundaries: boolean): Shown {
    const piece = this.#tokens.pieces.get(id);
    if (piece?.bytes) return shownAs(hexOf(piece.bytes), "bytes", boundaries);
    if (piece?.text === undefined) return shownAs(`#${id}`, "unknown", boundaries);
    return shownAs(piece.text, piece.special ? "special" : "text", boundaries);
  }

  /** As it is, for what is copied and searched; "" for the later tokens of a character. */
  raw(token: number): string {
    return this.#joined.get(token)?.text ?? this.#tokens.pieces.get(this.#tokens.ids[token]!)?.text ?? "";
  }

  isSpecial(token: number): boolean {
    return this.#tokens.pieces.get(this.#tokens.ids[token]!)?.special === true;
  }

  /** Of a token that is no whole character: its bytes, and the characters they are part of. */
  bytes(token: number): { hex: string; part: string } | undefined {
    const joined = this.#joined.get(token);
    const bytes = this.#tokens.pieces.get(this.#tokens.ids[token]!)?.bytes;
    return joined && bytes && { hex: hexOf(bytes), part: joined.part };
  }
}

const hexOf = (bytes: readonly number[]) => bytes.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");

function shownAs(text: string, kind: Shown["kind"], boundaries: boolean): Shown {
  const breaks = kind === "special" ? 0 : (/\n*$/.exec(text)?.[0].length ?? 0);
  const opens = kind === "special" || /^\s/.test(text);
  const seen = visible(text)
    .map((piece) => piece.text)
    .join("");
  const shown = boundaries && kind !== "special" && kind !== "bytes" ? marked(seen) : read(seen, breaks);
  return { text: shown, columns: columnsOf(shown) + (kind === "special" ? 2 : 0), breaks, opens, kind };
}

const marked = (text: string) => text.replaceAll(" ", "␣").replaceAll("\t", "⇥").replaceAll("\n", "⏎");

/** A line feed that ends a token ends the line; within one it is shown. */
function read(text: string, breaks: number): string {
  const own = breaks === 0 ? text : text.slice(0, -breaks);
  return own.replaceAll("\n", "⏎").replaceAll("\t", "  ");
}

/** How wide text is among fixed-width characters, by what terminals take for wide. */
export function columnsOf(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: plain ASCII is the common case
  if (/^[\x00-\x7f]*$/.test(text)) return text.length;
  let columns = 0;
  for (const character of text) {
    if (/\p{M}|\u200c|\u200d/u.test(character)) continue;
    columns +=
      /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6]|\p{Extended_Pictographic}|[\u{20000}-\u{3fffd}]/u.test(
        character,
      )
        ? 2
        : 1;
  }
  return columns;
}

function joinBytes({ ids, pieces, count, chains }: Tokens): Map<number, Joined> {
  const joined = new Map<number, Joined>();
  const begins = new Set(chains.map(({ from }) => from));
  let run: number[][] = [];
  const end = (token: number) => {
    decodeRun(run).forEach((part, i) => {
      joined.set(token - run.length + i, part);
    });
    run = [];
  };
  for (let token = 0; token < count; token++) {
    const bytes = pieces.get(ids[token]!)?.bytes;
    if (run.length > 0 && (!bytes || begins.has(token))) end(token);
    if (bytes) run.push(bytes);
  }
  end(count);
  return joined;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** [tokens][bytes] → what each token shows. A byte that belongs to no character is �. */
export function decodeRun(run: readonly (readonly number[])[]): Joined[] {
  const bytes = run.flat();
  const owner = run.flatMap((own, token) => own.map(() => token));
  const out = run.map((): Joined => ({ text: "", part: "" }));
  for (let at = 0; at < bytes.length; ) {
    const length = lengthOf(bytes[at]!);
    const character = decoded(bytes.slice(at, at + length));
    const taken = character === undefined ? 1 : length;
    const shown = character ?? "\ufffd";
    out[owner[at]!]!.text += shown;
    for (const token of new Set(owner.slice(at, at + taken))) out[token]!.part += shown;
    at += taken;
  }
  return out;
}

const lengthOf = (lead: number) => (lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1);

function decoded(bytes: readonly number[]): string | undefined {
  try {
    return utf8.decode(Uint8Array.from(bytes));
  } catch {
    return undefined;
  }
}
