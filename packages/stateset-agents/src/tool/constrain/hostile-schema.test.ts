import { afterAll, describe, expect, it } from "vitest";
import { createConstraintCompiler } from "./compile-in-worker.ts";
import { readLimits } from "./limits.ts";

type Schema = Record<string, unknown>;

const nested = (depth: number, inner: (items: unknown) => Schema) =>
  Array.from({ length: depth }).reduce<Schema>((items) => inner(items), { type: "string" });
const defs = (count: number, of: (next: { $ref: string }) => Schema): Schema => ({
  $ref: "#/$defs/d0",
  $defs: Object.fromEntries([
    ...Array.from({ length: count }, (_, i) => [`d${i}`, of({ $ref: `#/$defs/d${i + 1}` })]),
    [`d${count}`, { type: "null" }],
  ]),
});
const pattern = (written: string): Schema => ({ type: "string", pattern: written });
const itself: Schema = { type: "array" };
itself.items = itself;

const hostile: Record<string, Schema> = {
  "ten megabytes": { enum: ["x".repeat(10_000_000)] },
  "ten megabytes of keys": Object.fromEntries(
    Array.from({ length: 300_000 }, (_, i) => [`a key of no use at all ${i}`, 1]),
  ),
  "a million small values": { enum: Array.from({ length: 1_000_000 }, (_, i) => i) },
  "a huge enum": { enum: Array.from({ length: 9000 }, (_, i) => `${i}-${"é".repeat(8)}`) },
  "a schema that holds itself": itself,
  "100,000 levels": nested(100_000, (items) => ({ items })),
  "60 levels of lists": nested(60, (items) => ({ type: "array", items })),
  "a reference to itself": { $ref: "#" },
  "references in a circle": { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } } },
  "a reference to nowhere": { $ref: "#/$defs/none" },
  "a reference to elsewhere": { $ref: "https://example.com/schema.json" },
  "references that double": defs(40, (next) => ({ anyOf: [next, next] })),
  "objects that double": defs(40, (next) => ({
    type: "object",
    properties: { a: next, b: next },
    required: ["a", "b"],
  })),
  "allOf that doubles": defs(40, (next) => ({ allOf: [next, next] })),
  "allOf of thousands": { allOf: Array.from({ length: 4000 }, () => ({ minLength: 1 })) },
  "oneOf of thousands": { oneOf: Array.from({ length: 4000 }, (_, i) => ({ const: i })) },
  "2^30 characters": { type: "string", minLength: 2 ** 30 },
  "2^30 items": { type: "array", items: { type: "null" }, minItems: 2 ** 30 },
  "2^30 repeats": pattern("^a{1073741824}$"),
  "repeats of repeats": pattern("^((((a{1,99}){1,99}){1,99}){1,99}){1,99}$"),
  "a pattern that remembers": pattern("(a|b)*a(a|b){60}"),
  "a pattern that looks back": pattern("^(a)\\1$"),
  "no pattern at all": pattern("(((("),
  not: { not: { type: "string" } },
};

describe("a hostile schema", () => {
  const compiler = createConstraintCompiler();
  afterAll(() => compiler.close());
  const ask = (schema: Schema) =>
    compiler.compile({ tools: [], limits: readLimits(true), reasoning: false, answer: { schema } });

  it.each(Object.entries(hostile))("%s: is refused, and this thread goes on meanwhile", async (_, schema) => {
    let ticks = 0;
    const clock = setInterval(() => ticks++, 1);
    const error = await ask(schema).catch((thrown) => thrown);
    if (ticks === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    clearInterval(clock);
    expect(error).toMatchObject({ code: "INVALID_OPTION" });
    expect(ticks).toBeGreaterThan(0);
  });

  it("with nested quantifiers is none: an automaton does not go back", async () => {
    expect((await ask(pattern("^(a+)+$"))).flags.length).toBeGreaterThan(0);
  });

  it("does not keep others from being made", async () => {
    const bad = [hostile["objects that double"]!, hostile["60 levels of lists"]!, hostile["2^30 items"]!].map(
      (one, i) => ({ ...one, title: `${i}` }),
    );
    const asked = bad.flatMap((one, i) => [
      ask(one),
      ask({ type: "object", properties: { [`p${i}`]: { type: "null" } } }),
    ]);
    const settled = await Promise.allSettled(asked);
    expect(settled.map(({ status }) => status)).toEqual(bad.flatMap(() => ["rejected", "fulfilled"]));
  });
});
