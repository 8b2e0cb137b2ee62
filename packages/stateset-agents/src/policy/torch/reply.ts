import { z } from "zod";
import { type ErrorCode, errorCodes, StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import type { SnapshotFiles } from "../stored-file.ts";
import { isObject, type JsonObject } from "../tokenizer/model-json.ts";
import type { Frame } from "./frame.ts";

/** What the worker answered. Nothing in it is believed before it was looked at: whatever is missing or of another kind is an error that names it. */
export class Reply {
  readonly op: string;
  readonly fields: JsonObject;
  readonly #arrays: Frame["arrays"];

  constructor(op: string, { envelope, arrays }: Frame) {
    this.op = op;
    this.fields = envelope;
    this.#arrays = arrays;
  }

  count(name: string): number {
    return asCount(this.fields[name], this.op, name);
  }

  /** JSON has no NaN and no infinity: what was one comes as null. */
  number(name: string): number {
    const value = this.fields[name];
    if (value === null) return Number.NaN;
    if (typeof value !== "number") throw malformed(this.op, name);
    return value;
  }

  flag(name: string): boolean {
    const value = this.fields[name];
    if (typeof value !== "boolean") throw malformed(this.op, name);
    return value;
  }

  text(name: string): string {
    const value = this.fields[name];
    if (typeof value !== "string") throw malformed(this.op, name);
    return value;
  }

  /** `length`: how many there must be. */
  floats(name: string, length?: number): Float32Array {
    const array = this.optionalFloats(name, length);
    if (!array) throw malformed(this.op, name);
    return array;
  }

  optionalFloats(name: string, length?: number): Float32Array | undefined {
    return this.#array(name, Float32Array, length);
  }

  ints(name: string, length?: number): Int32Array {
    const array = this.optionalInts(name, length);
    if (!array) throw malformed(this.op, name);
    return array;
  }

  optionalInts(name: string, length?: number): Int32Array | undefined {
    return this.#array(name, Int32Array, length);
  }

  #array<T extends Float32Array | Int32Array>(name: string, kind: new (...of: never[]) => T, length?: number) {
    const array: unknown = Object.hasOwn(this.#arrays, name) ? this.#arrays[name] : undefined;
    if (array === undefined) return undefined;
    if (!(array instanceof kind) || (length !== undefined && array.length !== length)) throw malformed(this.op, name);
    return array;
  }
}

const filesSchema = z.array(z.object({ file: z.string(), bytes: z.int().min(0), sha256: z.string() }));

/** What was written, and hashed by who wrote it. */
export function filesOf(reply: Reply): SnapshotFiles {
  return {
    files: parseOptions(filesSchema, reply.fields.files, `the worker's answer to ${reply.op}`, "ENGINE_FAILED"),
  };
}

export function asCount(value: unknown, op: string, name: string): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw malformed(op, name);
  return value as number;
}

export function malformed(op: string, name: string): StatesetError {
  return new StatesetError(
    "ENGINE_FAILED",
    `The PyTorch worker's answer to ${op} lacks ${name}, or has it in another form.`,
  );
}

/** What the worker says went wrong. */
export function refusal(op: string, error: unknown): StatesetError {
  const { code, message, hint } = isObject(error) ? error : ({} as JsonObject);
  const known = typeof code === "string" && Object.hasOwn(errorCodes, code);
  return new StatesetError(
    known ? (code as ErrorCode) : "ENGINE_FAILED",
    typeof message === "string" ? message : `The PyTorch worker failed at ${op} without saying why.`,
    { ...(typeof hint === "string" && { hint }), cause: error },
  );
}

/** Whether a worker refuses this client for the sake of another one. */
export function isBusy(error: unknown): boolean {
  return StatesetError.isInstance(error) && isObject(error.cause) && error.cause.busy === true;
}
