import { concat, foreignText, join, mapCharacters, ownText, type TracedText } from "../traced-text.ts";
import { ArrayValue, FloatValue, IntegerValue, ObjectValue, StringValue, type Value } from "./library.ts";
import { markOf, TracedObject } from "./objects.ts";
import { foreignString, tracedString } from "./strings.ts";

/** What `{{ value }}` prints: str() of Python, where the library prints JSON. */
export function printed(value: Value): TracedText {
  if (value instanceof StringValue) return tracedString(value);
  if (value.type === "UndefinedValue") return ownText("");
  return represented(value);
}

/** repr() of Python. */
function represented(value: Value): TracedText {
  if (value instanceof StringValue) return quoted(tracedString(value));
  if (value instanceof ArrayValue) return concat(["[", join(value.value.map(represented), ", "), "]"]);
  if (value instanceof ObjectValue) {
    const parts = [...value.value].map(([key, part]) => concat([quoted(keyOf(value, key)), ": ", represented(part)]));
    return concat(["{", join(parts, ", "), "}"]);
  }
  if (value instanceof IntegerValue || value instanceof FloatValue) return traced(value, value.toString());
  if (value.type === "BooleanValue") return traced(value, value.value ? "True" : "False");
  return foreignText(value.type === "NullValue" ? "None" : value.toString(), markOf(value));
}

/** A key of an object, as far as it is known who wrote it. */
export function keyOf(object: Value, key: string): TracedText {
  return object instanceof TracedObject ? object.keyOf(key) : foreignString(key);
}

/** What a value that is no string is written as. */
export function traced(value: Value, text: string): TracedText {
  const mark = markOf(value);
  return mark ? foreignText(text, mark) : ownText(text);
}

const unprintable = /[\p{C}\p{Z}]/u;
const shortEscapes: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };

function quoted(text: TracedText): TracedText {
  const quote = text.text.includes("'") && !text.text.includes('"') ? '"' : "'";
  const written = (char: string) => {
    if (char === quote) return `\\${quote}`;
    if (shortEscapes[char]) return shortEscapes[char];
    if (char === " " || !unprintable.test(char)) return char;
    const code = char.codePointAt(0)!;
    const [letter, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return `\\${letter}${code.toString(16).padStart(digits as number, "0")}`;
  };
  return concat([quote, mapCharacters(text, written), quote]);
}
