import { concat, holdsForeign, join, slice, type TracedText } from "../traced-text.ts";
import { toJson } from "./json.ts";
import { type Arguments, ArrayValue, argument, FloatValue, IntegerValue, StringValue, type Value } from "./library.ts";
import { markForeign, markOf, TracedObject } from "./objects.ts";
import { printed } from "./printed.ts";
import { methods, TracedString, tracedString } from "./strings.ts";

const ofStrings = new Set(["upper", "lower", "title", "capitalize", "trim", "replace", "indent"]);
/** Filters that make strings. */
export const tracedFilters: ReadonlySet<string> = new Set(["tojson", "string", "items", "join", ...ofStrings]);

/** Undefined where there is no such filter for the operand. */
export function applyFilter(operand: Value, name: string, args: Arguments): Value | undefined {
  if (name === "tojson") return new TracedString(toJson(operand, args));
  if (name === "string") return new TracedString(printed(operand));
  if (name === "items" && operand instanceof TracedObject) return operand.items();
  if (name === "join" && operand instanceof ArrayValue) {
    const separator = argument(args, 0, "d");
    return new TracedString(join(operand.value.map(printed), separator ? printed(separator) : ""));
  }
  if (!ofStrings.has(name)) return undefined;
  // Whatever it is: to Jinja too, these are filters of what a value prints.
  const text = printed(operand);
  if (name === "indent") return new TracedString(indent(text, args));
  return methods[name === "trim" ? "strip" : name]!(text, args);
}

/** What the library makes of foreign numbers, or of foreign text that it reads as one, is foreign too. */
export function traceNumber(result: Value, from: readonly Value[]): Value {
  const isNumber = result instanceof IntegerValue || result instanceof FloatValue;
  if (!isNumber || from.includes(result)) return result;
  const foreign = from.some((value) =>
    value instanceof StringValue ? holdsForeign(tracedString(value)) : markOf(value) !== undefined,
  );
  return foreign ? markForeign(result) : result;
}

/** Every line but the first and blank ones, unless told otherwise. */
function indent(text: TracedText, args: Arguments): TracedText {
  const width = argument(args, 0, "width")?.value ?? 4;
  const first = argument(args, 1, "first")?.value === true;
  const blank = argument(args, 2, "blank")?.value === true;
  const space = typeof width === "number" ? " ".repeat(width) : String(width);
  const lines: TracedText[] = [];
  let from = 0;
  for (const line of text.text.split("\n")) {
    const own = slice(text, from, from + line.length);
    const skipped = (lines.length === 0 && !first) || (line === "" && !blank);
    lines.push(skipped ? own : concat([space, own]));
    from += line.length + 1;
  }
  return join(lines, "\n");
}
