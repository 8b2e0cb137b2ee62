import { StatesetError } from "../../error.ts";
import { isObject, type JsonObject } from "../tokenizer/model-json.ts";

/** Typed access to a JSON object. For a fallback what is null counts as absent. */
export class ConfigReader {
  readonly #json: JsonObject;
  readonly #where: string;

  constructor(json: JsonObject, where: string) {
    this.#json = json;
    this.#where = where;
  }

  unsupported(what: string, hint = "Choose another model, or ask for this feature."): StatesetError {
    return new StatesetError("MODEL_UNSUPPORTED", `${this.#where} asks for ${what}, which the engine does not have.`, {
      hint,
    });
  }

  invalid(key: string, wanted: string): StatesetError {
    const value = JSON.stringify(this.#json[key]) ?? "missing";
    return new StatesetError("MODEL_INVALID", `${key} in ${this.#where} is ${value}; it must be ${wanted}.`, {
      hint: "The file is damaged, or no language model: download or convert the model again.",
    });
  }

  /** Not there at all; `null` is there. */
  absent(key: string): boolean {
    return this.#json[key] === undefined;
  }

  has(key: string): boolean {
    return this.#json[key] !== undefined && this.#json[key] !== null;
  }

  #read<T>(key: string, fallback: T | (() => T) | undefined, wanted: string, ok: (value: unknown) => boolean): T {
    if (!this.has(key) && fallback !== undefined) return fallback instanceof Function ? fallback() : fallback;
    if (!ok(this.#json[key])) throw this.invalid(key, wanted);
    return this.#json[key] as T;
  }

  size(key: string, fallback?: number | (() => number)): number {
    const ok = (value: unknown) => Number.isInteger(value) && (value as number) > 0 && (value as number) <= 2 ** 24;
    return this.#read(key, fallback, "a whole number from 1 to 16777216", ok);
  }

  count(key: string, fallback: number): number {
    return this.#read(key, fallback, "a whole number", (value) => Number.isInteger(value) && (value as number) >= 0);
  }

  number(key: string, fallback?: number): number {
    const ok = (value: unknown) => Number.isFinite(value) && (value as number) >= 0;
    return this.#read(key, fallback, "a number that is not negative", ok);
  }

  flag(key: string, fallback: boolean): boolean {
    return this.#read(key, fallback, "true or false", (value) => typeof value === "boolean");
  }

  text(key: string, fallback: string | (() => string)): string {
    return this.#read(key, fallback, "a string", (value) => typeof value === "string");
  }

  list(key: string): unknown[] | undefined {
    if (!this.has(key)) return undefined;
    return this.#read<unknown[]>(key, undefined, "a list", Array.isArray);
  }

  object(key: string): ConfigReader | undefined {
    if (!this.has(key)) return undefined;
    const value = this.#json[key];
    if (!isObject(value)) throw this.invalid(key, "an object");
    return new ConfigReader(value, `${key} in ${this.#where}`);
  }

  divided(hidden: number, heads: number): number {
    if (hidden % heads === 0) return hidden / heads;
    throw new StatesetError(
      "MODEL_INVALID",
      `${this.#where}: the hidden size ${hidden} is not a multiple of the ${heads} heads.`,
    );
  }
}
