/** Pythonic: a reply that is `f(a=1, b="x")`, or a list of such, `[f(a=1), g()]`. Arguments are Python literals, by name. */
import { argumentsOf, opened, unwritten } from "../constrain/call-grammar.ts";
import { choice, sequence, text } from "../constrain/grammar.ts";
import type { Place } from "../constrain/nfa.ts";
import { matching } from "../constrain/regex-grammar.ts";
import { space } from "../constrain/schema-grammar.ts";
import { unsupported } from "../constrain/unsupported.ts";
import type { HeldFormat, ParsedReply, UnreadableCall, WrittenCall } from "./call-format.ts";
import { unreadable } from "./read-json-call.ts";

export const pythonic: HeldFormat = {
  name: "pythonic",
  markers: [],
  names: /^[A-Za-z_][\w.]*$/,
  parse(text): ParsedReply {
    const written = text.trim();
    return beginsLikeCall(written) ? { content: "", calls: readPythonCalls(written) } : { content: text, calls: [] };
  },
  certain: (text) => (/^\s*\[?\s*(?:[A-Za-z_][\w.]*)?\s*(?:\(|$)/.test(text) ? 0 : text.length),
  print: (calls) => `[${calls.map(printed).join(", ")}]`,
  grammar(nfa, tools, around) {
    const spaces = matching("\\s*");
    /** Calls behind one another: where each is opened, and where it goes on after `f(`. */
    const calls = (close: string) => {
      const again = nfa.place();
      const rests = tools.map(({ name, reader }): [string, Place] => {
        const given = reader({ print: pythonOf }).as({ open: "", close: ")", key: (key) => keyword(key, name) });
        return [name, argumentsOf(name, given)(nfa, again)];
      });
      const next = nfa.either(...rests.map(([name, rest]) => text(`${name}(`)(nfa, rest)));
      nfa.beside[again]!.push(text(close)(nfa, around.end));
      if (around.several) nfa.beside[again]!.push(sequence(",", space)(nfa, next));
      return rests;
    };
    const [alone, listed] = [calls(""), calls("]")];
    return {
      start: nfa.either(
        ...alone.map(([name, rest]) => opened(nfa, around, sequence(spaces, `${name}(`), rest)),
        ...listed.map(([name, rest]) => opened(nfa, around, sequence(spaces, "[", spaces, `${name}(`), rest)),
        unwritten(
          nfa,
          around,
          sequence(spaces, choice("", sequence("[", spaces)), matching("[A-Za-z_][A-Za-z0-9_.]*\\(")),
        ),
      ),
    };
  },
};

function keyword(key: string, tool: string) {
  if (!/^[A-Za-z_]\w*$/.test(key))
    throw unsupported(`the argument "${key}", which is no name in Python`, `the tool "${tool}"`);
  return text(`${key}=`);
}

const beginsLikeCall = (text: string) => /^\[?\s*[A-Za-z_][\w.]*\(/.test(text);

function printed({ name, arguments: args }: WrittenCall): string {
  const given = Object.entries(JSON.parse(args) as Record<string, unknown>);
  return `${name}(${given.map(([key, value]) => `${key}=${pythonOf(value)}`).join(", ")})`;
}

function pythonOf(value: unknown): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonOf).join(", ")}]`;
  if (typeof value === "object")
    return `{${Object.entries(value)
      .map(([key, part]) => `${JSON.stringify(key)}: ${pythonOf(part)}`)
      .join(", ")}}`;
  return JSON.stringify(value);
}

/** Calls with commas, semicolons or lines between them, in brackets or not. A name's `.call` is dropped: Llama's built-in tools have it. */
export function readPythonCalls(text: string): (WrittenCall | UnreadableCall)[] {
  const calls: (WrittenCall | UnreadableCall)[] = [];
  const reader = new LiteralReader(text);
  const list = reader.skip("[");
  for (;;) {
    while (reader.skip(",") || reader.skip(";"));
    if (reader.done || (list && reader.skip("]"))) break;
    const from = reader.at;
    let name: string | undefined;
    try {
      name = reader.name();
      const args = reader.keywords();
      calls.push({ name: name.replace(/\.call$/, ""), arguments: JSON.stringify(args) });
    } catch (error) {
      calls.push(unreadable(text.slice(from), (error as Error).message, name));
      return calls;
    }
  }
  if (!reader.done) calls.push(unreadable(text.slice(reader.at), "more follows the calls"));
  return calls;
}

const escapes: Readonly<Record<string, string>> = {
  ...{ n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", "0": "\0", "\n": "" },
};

/** Reads Python's literals; nothing is ever computed. */
class LiteralReader {
  at = 0;
  readonly #text: string;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
    this.#space();
  }

  get done(): boolean {
    return this.at >= this.#text.length;
  }

  skip(piece: string): boolean {
    if (!this.#text.startsWith(piece, this.at)) return false;
    this.at += piece.length;
    this.#space();
    return true;
  }

  name(): string {
    return this.#match(/[A-Za-z_][\w.]*/y) ?? this.#fail("a name was expected");
  }

  /** `(a=1, b="x")` as an object. */
  keywords(): Record<string, unknown> {
    if (!this.skip("(")) this.#fail('"(" was expected');
    const entries = new Map<string, unknown>();
    while (!this.skip(")")) {
      const key = this.#match(/[A-Za-z_]\w*(?=\s*=)/y) ?? this.#fail("arguments must be given by name");
      if (entries.has(key)) this.#fail(`"${key}" is given twice`);
      if (!this.skip("=")) this.#fail('"=" was expected');
      entries.set(key, this.#value());
      if (!this.skip(",") && !this.#text.startsWith(")", this.at)) this.#fail('"," or ")" was expected');
    }
    return Object.fromEntries(entries);
  }

  #value(): unknown {
    if (++this.#depth > 64) this.#fail("it is nested too deeply");
    try {
      if (this.skip("[")) return this.#items("]");
      if (this.skip("(")) return this.#items(")");
      if (this.skip("{")) return this.#entries();
      const quote = this.#text[this.at];
      if (quote === '"' || quote === "'") return this.#string();
      const number = this.#match(/[+-]?(?:\d[\d_]*)?\.?\d[\d_]*(?:[eE][+-]?\d+)?\.?(?![\w.])/y);
      if (number !== undefined) return Number(number.replaceAll("_", ""));
      const word = this.#match(/[A-Za-z_]\w*/y);
      const constants = new Map<string | undefined, unknown>([
        ["True", true],
        ["true", true],
        ["False", false],
        ["false", false],
        ["None", null],
        ["null", null],
      ]);
      return constants.has(word) ? constants.get(word) : this.#fail("a value was expected");
    } finally {
      this.#depth--;
    }
  }

  #items(close: string): unknown[] {
    const items: unknown[] = [];
    while (!this.skip(close)) {
      items.push(this.#value());
      if (!this.skip(",") && !this.#text.startsWith(close, this.at)) this.#fail(`"," or "${close}" was expected`);
    }
    return items;
  }

  #entries(): Record<string, unknown> {
    const entries = new Map<string, unknown>();
    while (!this.skip("}")) {
      const key = this.#value();
      if (typeof key !== "string") this.#fail("a key must be a string");
      if (!this.skip(":")) this.#fail('":" was expected');
      entries.set(key as string, this.#value());
      if (!this.skip(",") && !this.#text.startsWith("}", this.at)) this.#fail('"," or "}" was expected');
    }
    return Object.fromEntries(entries);
  }

  #string(): string {
    const quote = this.#text[this.at++]!;
    let value = "";
    for (; this.at < this.#text.length; this.at++) {
      const char = this.#text[this.at]!;
      if (char === quote) {
        this.at++;
        this.#space();
        return value;
      }
      if (char !== "\\") value += char;
      else value += this.#escape();
    }
    return this.#fail("a string does not end");
  }

  #escape(): string {
    const code = /(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4}))/y;
    code.lastIndex = this.at + 1;
    const [whole, hex, unicode] = code.exec(this.#text) ?? [];
    if (whole !== undefined) {
      this.at += whole.length;
      return String.fromCharCode(Number.parseInt(hex ?? unicode!, 16));
    }
    const char = this.#text[++this.at] ?? "";
    return escapes[char] ?? (/["'\\]/.test(char) ? char : `\\${char}`);
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const [found] = pattern.exec(this.#text) ?? [];
    if (found === undefined) return undefined;
    this.at += found.length;
    this.#space();
    return found;
  }

  #space(): void {
    while (this.at < this.#text.length && /\s/.test(this.#text[this.at]!)) this.at++;
  }

  #fail(problem: string): never {
    throw new SyntaxError(this.done ? "it ends in the middle" : `${problem} at character ${this.at + 1}`);
  }
}
