/**
 * The language of filters:
 *   either  := both { "|" both }
 *   both    := one { ["&"] one }
 *   one     := "(" either ")" | name operator value | word
 *   operator:= = | != | > | >= | < | <= | ~ (contains)
 * Names and values are words, or anything in quotes. A word alone is looked for in what a run is called.
 */
import { HttpError } from "../../../server/http-error.ts";

export type Operator = "!=" | ">=" | "<=" | "=" | ">" | "<" | "~";

export type Filter =
  | { kind: "word"; text: string }
  | { kind: "compare"; name: string; operator: Operator; value: string; column: number }
  | { kind: "and" | "or"; parts: Filter[] };

interface Token {
  kind: "word" | "operator" | "&" | "|" | "(" | ")";
  text: string;
  /** From 1. */
  column: number;
}

export function filterError(column: number, what: string): HttpError {
  return new HttpError(400, `filter, column ${column}: ${what}`, { param: "filter", code: "filter_invalid" });
}

/** Undefined: all. */
export function parseFilter(text: string): Filter | undefined {
  const tokens = tokensOf(text);
  if (tokens.length === 0) return undefined;
  let at = 0;
  const end = text.length + 1;
  const here = () => tokens[at];
  const columnHere = () => here()?.column ?? end;

  const either = (): Filter => joined("or", both, () => here()?.kind === "|" && at++ >= 0);
  const both = (): Filter =>
    joined("and", one, () => {
      if (here()?.kind === "&") return at++ >= 0;
      return here()?.kind === "word" || here()?.kind === "(";
    });
  const joined = (kind: "and" | "or", part: () => Filter, more: () => boolean): Filter => {
    const parts = [part()];
    while (more()) parts.push(part());
    return parts.length === 1 ? parts[0]! : { kind, parts };
  };
  const one = (): Filter => {
    const token = here();
    if (token?.kind === "(") {
      at++;
      const inner = either();
      if (here()?.kind !== ")")
        throw filterError(columnHere(), `the parenthesis of column ${token.column} is not closed`);
      at++;
      return inner;
    }
    if (token?.kind !== "word") throw filterError(columnHere(), `expected a word or a name, found ${shown(token)}`);
    at++;
    const operator = here();
    if (operator?.kind !== "operator") return { kind: "word", text: token.text };
    at++;
    const value = here();
    if (value?.kind !== "word")
      throw filterError(columnHere(), `expected a value after ${operator.text}, found ${shown(value)}`);
    at++;
    return {
      kind: "compare",
      name: token.text,
      operator: operator.text as Operator,
      value: value.text,
      column: token.column,
    };
  };
  const whole = either();
  if (at < tokens.length) throw filterError(columnHere(), `did not expect ${shown(here())}`);
  return whole;
}

const shown = (token: Token | undefined) => (token ? JSON.stringify(token.text) : "the end");

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  const pattern = /\s+|(!=|>=|<=|=|>|<|~)|([&|()])|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s&|()=!<>~"']+)/gsy;
  while (pattern.lastIndex < text.length) {
    const column = pattern.lastIndex + 1;
    const found = pattern.exec(text);
    if (!found) {
      const what = /["']/.test(text[column - 1]!) ? "this quote is not closed" : `did not expect ${text[column - 1]}`;
      throw filterError(column, what);
    }
    const [, operator, mark, double, single, word] = found;
    const quoted = double ?? single;
    if (operator !== undefined) tokens.push({ kind: "operator", text: operator, column });
    else if (mark !== undefined) tokens.push({ kind: mark as Token["kind"], text: mark, column });
    else if (quoted !== undefined) tokens.push({ kind: "word", text: quoted.replace(/\\(.)/gs, "$1"), column });
    else if (word !== undefined) tokens.push({ kind: "word", text: word, column });
  }
  return tokens;
}
