import { type Mark, marks } from "../traced-text.ts";
import {
  ArrayValue,
  BooleanValue,
  FloatValue,
  FunctionValue,
  IntegerValue,
  NullValue,
  ObjectValue,
  type Run,
  UndefinedValue,
  type Value,
} from "./library.ts";
import { foreignString, ownString, type TracedString } from "./strings.ts";

/** An object whose keys are foreign, but for those that a template wrote itself. */
export class TracedObject extends ObjectValue {
  readonly #own: ReadonlySet<string>;
  readonly #mark: Mark;
  #builtins: ReadonlyMap<string, Value> | undefined;

  constructor(value: ReadonlyMap<string, Value>, own: ReadonlySet<string> = new Set(), mark: Mark = marks.said) {
    super(value);
    this.#own = own;
    this.#mark = mark;
  }

  keyOf(key: string): TracedString {
    return this.#own.has(key) ? ownString(key) : foreignString(key, this.#mark);
  }

  items(): Value {
    return new ArrayValue([...this.value].map(([key, value]) => new ArrayValue([this.keyOf(key), value])));
  }

  keys(): Value {
    return new ArrayValue([...this.value.keys()].map((key) => this.keyOf(key)));
  }

  override get builtins(): ReadonlyMap<string, Value> {
    if (this.#builtins) return this.#builtins;
    const known = super.builtins;
    const sort = known.get("dictsort")!.value as Run;
    const sorted: Run = (args, scope) => {
      const pairs = sort(args, scope).value as { value: [Value, Value] }[];
      return new ArrayValue(
        pairs.map(({ value: [key, value] }) => new ArrayValue([this.keyOf(key.value as string), value])),
      );
    };
    this.#builtins = new Map([...known, ["dictsort", new FunctionValue(sorted)]]);
    return this.#builtins;
  }
}

/** Numbers and truth values that somebody else gave. */
const foreignValues = new WeakMap<Value, Mark>();

/** Undefined for what is the template's own. */
export function markOf(value: Value): Mark | undefined {
  return foreignValues.get(value);
}

export function markForeign(value: Value, mark: Mark = marks.said): Value {
  foreignValues.set(value, mark);
  return value;
}

/** JSON that somebody wrote, as a template's value. */
export function foreignValue(given: unknown, mark: Mark): Value {
  if (typeof given === "string") return foreignString(given, mark);
  if (typeof given === "number")
    return markForeign(Number.isInteger(given) ? new IntegerValue(given) : new FloatValue(given), mark);
  if (typeof given === "boolean") return markForeign(new BooleanValue(given), mark);
  if (given === undefined) return new UndefinedValue(given);
  if (given === null) return markForeign(new NullValue(given), mark);
  if (Array.isArray(given)) return new ArrayValue(given.map((part) => foreignValue(part, mark)));
  if (typeof given === "object") {
    const parts = Object.entries(given).map(([key, part]): [string, Value] => [key, foreignValue(part, mark)]);
    return new TracedObject(new Map(parts), undefined, mark);
  }
  throw new TypeError(`a template cannot be given a ${typeof given}`);
}
