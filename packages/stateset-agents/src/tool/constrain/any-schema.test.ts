import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeTinyModel } from "../../../test/tiny-model.ts";
import { openPolicy } from "../../policy/open-policy.ts";
import { defaultSampling, type Policy } from "../../policy/policy.ts";
import { createRandom } from "../../random.ts";
import { describedSchema, referringSchema } from "../../test-support/random-schema.ts";
import { accepts, randomText, schemaAutomaton } from "../../test-support/walk-automaton.ts";
import { compileSchema } from "../schema/compile-schema.ts";
import { compileConstraint } from "./compile-constraint.ts";
import { readLimits } from "./limits.ts";

describe("any schema as an automaton", () => {
  it("accepts random documents of random schemas, and writes only documents that fit", () => {
    fc.assert(
      fc.property(describedSchema(), fc.integer({ min: 0, max: 2 ** 31 }), ({ schema, documents }, seed) => {
        const automaton = schemaAutomaton(schema);
        const check = compileSchema(schema, "the schema");
        for (const document of documents) expect(accepts(automaton, JSON.stringify(document))).toBe(true);
        const { next } = createRandom(seed);
        for (let i = 0; i < 10; i++) {
          const text = randomText(automaton, next);
          expect(check(JSON.parse(text)), text).toEqual([]);
        }
      }),
      { numRuns: 150, seed: 15 },
    );
  });

  it("holds bounds of numbers wherever they lie", () => {
    const bound = fc.oneof(fc.integer({ min: -2000, max: 2000 }), fc.double({ min: -50, max: 50, noNaN: true }));
    fc.assert(
      fc.property(
        bound,
        bound,
        fc.boolean(),
        fc.boolean(),
        fc.integer({ min: 0, max: 2 ** 31 }),
        (a, b, exclusive, whole, seed) => {
          const [low, high] = [Math.min(a, b), Math.max(a, b) + 1];
          const bounds = exclusive
            ? { exclusiveMinimum: low, exclusiveMaximum: high }
            : { minimum: low, maximum: high };
          const schema = { type: whole ? "integer" : "number", ...bounds };
          if (whole && Math.floor(high) - Math.ceil(low) < 2) return;
          const check = compileSchema(schema, "the schema");
          const automaton = schemaAutomaton(schema);
          const { next } = createRandom(seed);
          for (let i = 0; i < 20; i++) {
            const text = randomText(automaton, next);
            expect(check(JSON.parse(text)), text).toEqual([]);
          }
          for (let value = Math.ceil(low) + 1; value < high; value += 37)
            expect(accepts(automaton, String(value))).toBe(true);
        },
      ),
      { numRuns: 300, seed: 15 },
    );
  });
});

describe("answers of a model with random weights, at temperature 1.5", () => {
  const [schemas, replies] = [process.env.STATESET_SOAK ? 500 : 25, 4];
  let policy: Policy;
  beforeAll(async () => {
    const model = await makeTinyModel("llama", { max_position_embeddings: 4096 }, { scale: 0.4 });
    policy = await openPolicy({ model, threads: 1, slots: 16 });
  });
  afterAll(() => policy.close());

  it(`all parse and fit their schema, ${schemas} random schemas`, { timeout: 3_600_000 }, async () => {
    const counts = { whole: 0, cut: 0 };
    const property = fc.asyncProperty(
      fc.oneof(
        describedSchema().map(({ schema }) => schema),
        referringSchema(),
      ),
      async (schema) => {
        const limits = readLimits({ maxLength: 6, maxItems: 2, maxDepth: 2 });
        const constraint = compileConstraint({ tools: [], limits, reasoning: false, answer: { schema } });
        const check = compileSchema(schema, "the schema");
        const samples = await policy.sample(
          Array.from({ length: replies }, (_, seed) => ({
            tokens: Int32Array.of(1, 5 + seed, 9),
            sampling: { ...defaultSampling, temperature: 1.5, maxTokens: 2000 },
            ...{ seed, constraint },
          })),
        );
        for (const { text, finishReason } of samples) {
          counts[finishReason === "length" ? "cut" : "whole"]++;
          if (finishReason !== "length") expect(check(JSON.parse(text)), text).toEqual([]);
        }
      },
    );
    await fc.assert(property, { numRuns: schemas, seed: 16, endOnFailure: true });
    // What the token limit cuts is no whole value; bounds keep that from happening.
    expect(counts).toEqual({ whole: schemas * replies, cut: 0 });
  });
});
