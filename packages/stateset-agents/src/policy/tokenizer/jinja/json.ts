import { concat, join, mapCharacters, type TracedText } from "../traced-text.ts";
import {
  type Arguments,
  ArrayValue,
  argument,
  BooleanValue,
  FloatValue,
  IntegerValue,
  ObjectValue,
  StringValue,
  type Value,
} from "./library.ts";
import { keyOf, traced } from "./printed.ts";
import { tracedString } from "./strings.ts";

/** The filter `tojson` as transformers has it: json.dumps() of Python. Its signs are the template's, all else is whose it was. */
export function toJson(value: Value, args: Arguments): TracedText {
  const given = argument(args, 1, "indent")?.value;
  const indent = typeof given === "number" ? given : undefined;
  const separators = argument(args, 2, "separators");
  const [comma, colon] =
    separators instanceof ArrayValue
      ? separators.value.map((separator) => tracedString(separator))
      : [indent === undefined ? ", " : ",", ": "];
  const ascii = argument(args, 0, "ensure_ascii")?.value === true;
  const sorted = argument(args, 3, "sort_keys")?.value === true;

  const quote = (text: TracedText) => {
    const written = (char: string) => {
      const escaped = JSON.stringify(char).slice(1, -1);
      return ascii ? escaped.replace(/[^\x20-\x7e]/g, unicodeEscape) : escaped;
    };
    const same =
      JSON.stringify(text.text).length === text.text.length + 2 && !(ascii && /[^\x20-\x7e]/.test(text.text));
    return concat(['"', same ? text : mapCharacters(text, written), '"']);
  };
  const list = (open: string, parts: readonly TracedText[], close: string, depth: number) => {
    if (parts.length === 0) return concat([open, close]);
    if (indent === undefined) return concat([open, join(parts, comma!), close]);
    const line = (depth: number) => `\n${" ".repeat(indent * depth)}`;
    return concat([open, line(depth + 1), join(parts, concat([comma!, line(depth + 1)])), line(depth), close]);
  };
  const write = (value: Value, depth: number): TracedText => {
    if (value instanceof StringValue) return quote(tracedString(value));
    if (value instanceof IntegerValue || value instanceof BooleanValue || value instanceof FloatValue)
      return traced(value, JSON.stringify(value.value));
    if (value instanceof ArrayValue) {
      const parts = value.value.map((part) => write(part, depth + 1));
      return list("[", parts, "]", depth);
    }
    if (value instanceof ObjectValue || value.type === "NamespaceValue") {
      const entries = [...(value.value as ReadonlyMap<string, Value>)];
      if (sorted) entries.sort(([a], [b]) => (a < b ? -1 : 1));
      const parts = entries.map(([key, part]) => concat([quote(keyOf(value, key)), colon!, write(part, depth + 1)]));
      return list("{", parts, "}", depth);
    }
    if (value.type === "NullValue" || value.type === "UndefinedValue") return concat(["null"]);
    throw new TypeError(`tojson cannot write a ${value.type}`);
  };
  return write(value, 0);
}

function unicodeEscape(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
