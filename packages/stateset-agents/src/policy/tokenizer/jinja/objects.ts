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
  #builtins: ReadonlyMap<string, Value> | undefined;

  constructor(value: ReadonlyMap<string, Value>, own: ReadonlySet<string> = new Set()) {
    super(value);
    this.#own = own;
  }

  keyOf(key: string): TracedString {
    return this.#own.has(key) ? ownString(key) : foreignString(key);
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
const foreignValues = new WeakSet<Value>();

export function isForeign(value: Value): boolean {
  return foreignValues.has(value);
}

export function markForeign(value: Value): Value {
  foreignValues.add(value);
  return value;
}

/** JSON that somebody wrote, as a template's value. */
export function foreignValue(given: unknown): Value {
  if (typeof given === "string") return foreignString(given);
  if (typeof given === "number")
    return markForeign(Number.isInteger(given) ? new IntegerValue(given) : new FloatValue(given));
  if (typeof given === "boolean") return markForeign(new BooleanValue(given));
  if (given === undefined) return new UndefinedValue(given);
  if (given === null) return new NullValue(given);
  if (Array.isArray(given)) return new ArrayValue(given.map(foreignValue));
  if (typeof given === "object")
    return new TracedObject(new Map(Object.entries(given).map(([key, part]) => [key, foreignValue(part)])));
  throw new TypeError(`a template cannot be given a ${typeof given}`);
}
