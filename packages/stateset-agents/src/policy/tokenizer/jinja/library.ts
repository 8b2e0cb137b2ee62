/** The Jinja library's values and nodes. It exports no classes of values, so they are taken from what it makes of each kind. */
import { Environment } from "@huggingface/jinja";

export interface Value {
  readonly type: string;
  readonly value: unknown;
  toString(): string;
  __bool__(): { readonly value: boolean };
}

/** Part of a parsed template. */
export interface Node {
  type: string;
  [key: string]: unknown;
}

export type Run = (args: Value[], scope: unknown) => Value;

const environment = new Environment();

declare abstract class ValueOf<T> implements Value {
  constructor(value: T);
  readonly type: string;
  readonly value: T;
  /** What is called or read by name: `text.strip`, `object.items`. */
  get builtins(): ReadonlyMap<string, Value>;
  __bool__(): { readonly value: boolean };
}

function classOf<T>(name: string, value: unknown) {
  return environment.set(name, value).constructor as unknown as new (
    value: T,
  ) => ValueOf<T>;
}

export const StringValue = classOf<string>("string", "");
export const IntegerValue = classOf<number>("integer", 1);
export const FloatValue = classOf<number>("float", 0.5);
export const BooleanValue = classOf<boolean>("boolean", true);
export const NullValue = classOf<null>("null", null);
export const UndefinedValue = classOf<undefined>("undefined", undefined);
export const ArrayValue = classOf<readonly Value[]>("array", []);
export const ObjectValue = classOf<ReadonlyMap<string, Value>>("object", {});
export const FunctionValue = classOf<Run>("function", () => null);

/** What a function or filter is called with. */
export interface Arguments {
  readonly places: readonly Value[];
  readonly names: ReadonlyMap<string, Value>;
}

/** The library gives named arguments as one more value after the others. */
export function argumentsOf(args: readonly Value[]): Arguments {
  const last = args.at(-1);
  if (last?.type !== "KeywordArgumentsValue") return { places: args, names: new Map() };
  return { places: args.slice(0, -1), names: last.value as ReadonlyMap<string, Value> };
}

export function argument({ places, names }: Arguments, place: number, name: string): Value | undefined {
  const value = places[place] ?? names.get(name);
  return value?.type === "NullValue" || value?.type === "UndefinedValue" ? undefined : value;
}
