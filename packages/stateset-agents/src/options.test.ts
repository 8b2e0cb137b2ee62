import { describe, expect, it } from "vitest";
import { z } from "zod";
import { StatesetError } from "./error.ts";
import { parseOptions } from "./options.ts";

const schema = z.strictObject({
  learningRate: z.number().positive().default(1e-5),
  lora: z.strictObject({ rank: z.number().int().default(8) }).optional(),
  mode: z
    .discriminatedUnion("kind", [
      z.strictObject({ kind: z.literal("a"), alpha: z.number().optional() }),
      z.strictObject({ kind: z.literal("b"), beta: z.number().optional() }),
    ])
    .optional(),
  onFailure: z.union([z.enum(["lowest", "drop"]), z.strictObject({ score: z.number() })]).optional(),
});

const failure = (value: unknown): StatesetError => {
  try {
    parseOptions(schema, value, "train()");
  } catch (error) {
    if (StatesetError.isInstance(error)) return error;
  }
  throw new Error("expected a StatesetError");
};

describe("parseOptions", () => {
  it("fills in defaults", () => {
    expect(parseOptions(schema, {}, "train()")).toEqual({ learningRate: 1e-5 });
  });
  it("names an unknown option, where it was, and the nearest valid one", () => {
    const error = failure({ learningrate: 1 });
    expect(error.code).toBe("INVALID_OPTION");
    expect(error.message).toBe('Unknown option "learningrate" in train(). Did you mean "learningRate"?');
  });
  it("looks into nested objects and unions", () => {
    expect(failure({ lora: { ranks: 4 } }).message).toContain(
      'Unknown option "ranks" in train().lora. Did you mean "rank"?',
    );
    expect(failure({ mode: { kind: "a", alpa: 1 } }).message).toContain('Did you mean "alpha"?');
  });
  it("names every valid form where words and objects are", () => {
    expect(failure({ onFailure: "skip" }).message).toBe(
      'Invalid value for train().onFailure: "skip". Valid: lowest, drop, { score }.',
    );
    expect(failure({ onFailure: "dropp" }).message).toContain('Did you mean "drop"?');
  });
  it("names what is misspelt, not what is missing because of it", () => {
    const required = z.strictObject({ name: z.string(), inner: z.strictObject({ id: z.string() }).optional() });
    const message = (value: unknown) => {
      try {
        parseOptions(required, value, "tool");
      } catch (error) {
        return (error as Error).message;
      }
    };
    expect(message({ nmae: "a" })).toBe('Unknown option "nmae" in tool. Did you mean "name"?');
    expect(message({ name: "a", inner: { ident: "b" } })).toContain('Unknown option "ident" in tool.inner.');
    expect(message({ inner: { ident: "b" } })).toContain("tool.name");
    expect(message({ name: 1, nmae: "a" })).toContain("tool.name");
    expect(failure({ onFailure: { scor: 1 } }).message).toContain('Did you mean "score"?');
  });
  it("says which value is wrong", () => {
    expect(failure({ learningRate: -1 }).message).toMatch(/Invalid value for train\(\)\.learningRate: Too small/);
  });
});
