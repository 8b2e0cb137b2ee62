/** Reads through a JSON text before it is parsed: where it is malformed, and whether it is deeper or has more keys than it may. */
export interface JsonLimits {
  /** How deep arrays and objects may be inside each other. */
  maxDepth: number;
  /** Keys of all objects together. */
  maxKeys: number;
}

export interface JsonFault {
  /** Completes "the body …". Never holds what was sent. */
  problem: string;
  /** Offset in UTF-16 code units. */
  at: number;
}

/** Names that lead to what all objects share. */
const forbidden: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);

const space = /[\t\n\r ]*/y;
const scalar = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON allows none of them in a string
const plainCharacters = /[^"\\\u0000-\u001f]*/y;
const escaped = /\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/y;

/** The first thing that is wrong; undefined for a text that JSON.parse takes and that is within the limits. */
export function scanJson(text: string, { maxDepth, maxKeys }: JsonLimits): JsonFault | undefined {
  /** What is open: the closing bracket of each. */
  const open: ("]" | "}")[] = [];
  let at = 0;
  let keys = 0;
  const skip = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    if (!pattern.test(text)) return false;
    at = pattern.lastIndex;
    return true;
  };
  const fault = (problem: string): JsonFault => ({ problem: at < text.length ? problem : "ends too early", at });

  /** From its opening quote to behind its closing one. */
  const string = (): JsonFault | undefined => {
    at++;
    for (;;) {
      skip(plainCharacters);
      if (text[at] === '"') {
        at++;
        return undefined;
      }
      if (text[at] !== "\\") return fault("has a control character in a string");
      if (!skip(escaped)) return fault("has a malformed escape in a string");
    }
  };
  const key = (): JsonFault | undefined => {
    skip(space);
    if (text[at] !== '"') return fault("is malformed: a key in quotes was expected");
    const from = at;
    const wrong = string();
    if (wrong) return wrong;
    // An escape may spell it too.
    if (at - from <= 100 && forbidden.has(JSON.parse(text.slice(from, at)) as string)) {
      return { problem: "has a key that is not allowed (__proto__, constructor or prototype)", at: from };
    }
    if (++keys > maxKeys) return { problem: `has more than ${maxKeys} keys`, at: from };
    skip(space);
    if (text[at] !== ":") return fault("is malformed: a colon was expected");
    at++;
    return undefined;
  };

  for (;;) {
    // A value begins here.
    skip(space);
    const first = text[at];
    if (first === "{" || first === "[") {
      if (open.length === maxDepth) return fault(`is nested deeper than ${maxDepth} levels`);
      at++;
      skip(space);
      const close = first === "{" ? "}" : "]";
      open.push(close);
      if (text[at] !== close) {
        const wrong = first === "{" ? key() : undefined;
        if (wrong) return wrong;
        continue;
      }
    } else if (first === '"') {
      const wrong = string();
      if (wrong) return wrong;
    } else if (!skip(scalar)) return fault("is malformed: a value was expected");
    // And has ended here, with whatever ends with it.
    for (;;) {
      skip(space);
      const close = open.at(-1);
      if (close === undefined) return at < text.length ? fault("goes on after its end") : undefined;
      const next = text[at];
      if (next === close) {
        open.pop();
        at++;
      } else if (next === ",") {
        at++;
        const wrong = close === "}" ? key() : undefined;
        if (wrong) return wrong;
        break;
      } else return fault(`is malformed: a comma or ${close} was expected`);
    }
  }
}

/** Both from 1, as editors count. */
export function lineAndColumn(text: string, at: number): { line: number; column: number } {
  const before = text.slice(0, at).split(/\r\n|\r|\n/);
  return { line: before.length, column: before.at(-1)!.length + 1 };
}
