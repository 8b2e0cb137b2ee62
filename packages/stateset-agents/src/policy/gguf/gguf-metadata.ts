import { StatesetError } from "../../error.ts";
import { invalidModel, quoted } from "../weights/invalid-model.ts";

/** A number that does not fit 53 bits is a bigint. */
export type GgufScalar = string | number | bigint | boolean;
export type GgufValue = GgufScalar | readonly GgufScalar[];

/** The keys and values of a GGUF file, in its order. */
export type GgufMetadata = ReadonlyMap<string, GgufValue>;

/** Typed access to metadata. What is absent is undefined; what is of another kind is an error that names file and key. */
export class MetadataReader {
  readonly metadata: GgufMetadata;
  readonly file: string;

  constructor(metadata: GgufMetadata, file: string) {
    this.metadata = metadata;
    this.file = file;
  }

  #read<T>(key: string, wanted: string, ok: (value: GgufValue) => boolean): T | undefined {
    const value = this.metadata.get(key);
    if (value === undefined) return undefined;
    if (ok(value)) return value as T;
    const text = typeof value === "string" ? quoted(value) : String(value);
    const said = Array.isArray(value) ? `a list of ${value.length}` : text;
    throw invalidModel(this.file, `${quoted(key)} is ${said}; it must be ${wanted}`);
  }

  text(key: string): string | undefined {
    return this.#read(key, "text", (value) => typeof value === "string");
  }

  flag(key: string): boolean | undefined {
    return this.#read(key, "true or false", (value) => typeof value === "boolean");
  }

  number(key: string): number | undefined {
    return this.#read(key, "a number", Number.isFinite);
  }

  /** From 0 to 2^53. */
  count(key: string): number | undefined {
    return this.#read(key, "a whole number from 0 to 2^53", isCount);
  }

  texts(key: string): readonly string[] | undefined {
    return this.#read(key, "a list of texts", (value) => isListOf(value, (item) => typeof item === "string"));
  }

  numbers(key: string): readonly number[] | undefined {
    return this.#read(key, "a list of numbers", (value) => isListOf(value, (item) => typeof item === "number"));
  }

  counts(key: string): readonly number[] | undefined {
    return this.#read(key, "a list of whole numbers from 0 to 2^53", (value) => isListOf(value, isCount));
  }

  /** What must be there. */
  required<T>(key: string, value: T | undefined): T {
    if (value !== undefined) return value;
    throw new StatesetError("MODEL_INVALID", `${this.file} has no ${quoted(key)} in its metadata.`, {
      hint: key.startsWith("tokenizer.")
        ? "The file has no tokenizer: put the tokenizer.json of the original model beside it."
        : "The file is incomplete or holds no language model.",
    });
  }
}

function isCount(value: GgufValue): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isListOf(value: GgufValue, ok: (item: GgufScalar) => boolean): boolean {
  return Array.isArray(value) && (value as readonly GgufScalar[]).every(ok);
}
