/**
 * Whether a template decides by what is said otherwise than by looking for a string of its own in it (looked-for.ts): by its
 * length, its first character, its likeness to another message. Then nothing short of the whole conversation tells what it prints.
 * To cut, trim or recase what is said for printing is no such thing, nor is to ask whether there is any.
 */
import { holdsSaid } from "../traced-text.ts";
import { tracedFilters } from "./filters.ts";
import { ArrayValue, StringValue, type Value } from "./library.ts";
import { methods, tracedString } from "./strings.ts";

export function isSaid(value: Value): boolean {
  return value instanceof StringValue && holdsSaid(tracedString(value));
}

/** Said in pieces: what split() made. How many there are is nothing the template wrote. */
export function isCutUp(value: Value): boolean {
  return value instanceof ArrayValue && pieces.has(value);
}

const pieces = new WeakSet<Value>();

export function cutUp(made: Value): Value {
  pieces.add(made);
  return made;
}

const passOn: ReadonlySet<unknown> = new Set([...tracedFilters, "default", "safe"]);
const takeOne: ReadonlySet<unknown> = new Set(["first", "last"]);
/** Ask what kind of value it is. */
const kinds: ReadonlySet<unknown> = new Set(
  "defined undefined none string mapping iterable sequence number integer float boolean true false callable".split(" "),
);

export function filterMeasures(name: string, operand: Value): boolean {
  if (passOn.has(name)) return false;
  return isSaid(operand) || (isCutUp(operand) && !takeOne.has(name));
}

export function testMeasures(name: unknown, operand: Value): boolean {
  return isSaid(operand) && !kinds.has(name);
}

export function comparisonMeasures(left: Value, right: Value): boolean {
  if (!isSaid(left)) return false;
  return isSaid(right) || (right instanceof ArrayValue && right.value.some(isSaid));
}

/** `content.startswith(other.content)` */
export function callMeasures(method: unknown, first: unknown): boolean {
  return first instanceof StringValue && isSaid(first) && Object.hasOwn(methods, method as string);
}
