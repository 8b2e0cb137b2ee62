/** One call that is JSON text, read as it grows: no character is looked at twice. */
import type { FoundCall } from "./call-format.ts";

/** How far it is. */
export interface CallSoFar {
  name?: string;
  /** Where its arguments begin, and how far they go yet. */
  from?: number;
  to: number;
  /** Where it is over. */
  end?: number;
  /** It is not written as most are, a name and then an object of arguments: what it says is known when it is whole. */
  unusual?: boolean;
}

export class CallText {
  readonly #so: Omit<CallSoFar, "to"> & { to?: number } = {};
  #at: number;
  #depth = 0;
  /** Outside of the arguments: within the call, or nowhere if it is its arguments alone. */
  readonly #outside: number;
  /** Where the string begins that it is in. */
  #string: number | undefined;
  #escaped = false;
  /** The last string of the call's own, and the member's key once there is a colon behind it. */
  #word: string | undefined;
  #key: string | undefined;

  constructor({ at, name }: FoundCall) {
    this.#at = at;
    this.#outside = name === undefined ? 1 : 0;
    if (name !== undefined) Object.assign(this.#so, { name, from: at });
  }

  read(text: string): CallSoFar {
    const so = this.#so;
    for (; this.#at < text.length && so.end === undefined && !so.unusual; this.#at++) this.#take(text);
    return { ...so, to: so.to ?? this.#at };
  }

  #take(text: string): void {
    const char = text[this.#at]!;
    if (this.#string !== undefined) {
      if (this.#escaped) this.#escaped = false;
      else if (char === "\\") this.#escaped = true;
      else if (char === '"') this.#endString(text);
      return;
    }
    const own = this.#depth === 1 && this.#outside === 1;
    if (own && this.#key === "arguments" && this.#so.from === undefined && /\S/.test(char)) this.#beginArguments(char);
    if (char === '"') this.#string = this.#at;
    else if (char === "{" || char === "[") this.#depth++;
    else if (char === "}" || char === "]") this.#close();
    else if (own && char === ":") this.#key = this.#word === "parameters" ? "arguments" : this.#word;
    else if (own && char === ",") this.#key = undefined;
  }

  #beginArguments(char: string): void {
    if (char === "{" && this.#so.name !== undefined) this.#so.from = this.#at;
    else this.#so.unusual = true;
  }

  #close(): void {
    const so = this.#so;
    this.#depth--;
    if (this.#depth === this.#outside && so.from !== undefined) so.to ??= this.#at + 1;
    if (this.#depth > 0) return;
    so.end = this.#at + 1;
    if (so.from === undefined) so.unusual = true;
  }

  #endString(text: string): void {
    const written = text.slice(this.#string, this.#at + 1);
    this.#string = undefined;
    if (this.#depth !== 1 || this.#outside !== 1) return;
    try {
      this.#word = JSON.parse(written) as string;
    } catch {
      this.#so.unusual = true;
    }
    if (this.#key === "name" && this.#word !== "") this.#so.name = this.#word!;
  }
}
