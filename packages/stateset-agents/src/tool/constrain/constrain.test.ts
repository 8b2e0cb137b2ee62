import { describe, expect, it } from "vitest";
import { createRandom } from "../../random.ts";
import { stateAfter, stepOf } from "../../test-support/walk-automaton.ts";
import type { ByteAutomaton } from "../../policy/policy.ts";
import { compileSchema } from "../schema/compile-schema.ts";
import { determinise } from "./automaton.ts";
import { readLimits } from "./limits.ts";
import { Nfa, placeFlags } from "./nfa.ts";
import { json, SchemaReader } from "./schema-grammar.ts";

function automatonOf(schema: Record<string, unknown>, limits = {}): ByteAutomaton {
  const nfa = new Nfa();
  const start = new SchemaReader(schema, readLimits(limits), json, "test").whole()(nfa, nfa.place(placeFlags.end));
  return determinise(nfa, start);
}

function walk(automaton: ByteAutomaton, next: () => number): string {
  const bytes: number[] = [];
  let state = 0;
  for (;;) {
    const from = automaton.starts[state]!;
    const count = automaton.starts[state + 1]! - from;
    if (count === 0 || (automaton.flags[state]! & placeFlags.end && next() < 0.5)) break;
    const at = from + Math.floor(next() * count);
    const [low, high] = [automaton.ranges[2 * at]!, automaton.ranges[2 * at + 1]!];
    bytes.push(low + Math.floor(next() * (high - low + 1)));
    state = automaton.targets[at]!;
  }
  return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes));
}

const schemas: Record<string, Record<string, unknown>> = {
  object: { type: "object", properties: { a: { type: "string" }, b: { enum: ["x", "y", 3, null] } }, required: ["a"] },
  ints: { type: "integer", minimum: -37, maximum: 1203 },
  big: { type: "integer", exclusiveMinimum: 1e12 },
  num: { type: "number", minimum: -1.25, exclusiveMaximum: 37.5 },
  num2: { type: "number", exclusiveMinimum: 0, maximum: 1 },
  any: { type: "number" },
  pattern: { type: "string", pattern: "^[A-Z]{2,3}-\\d+é?$", maxLength: 12 },
  inner: { type: "string", pattern: "fo+", maxLength: 9 },
  list: { type: "array", items: { type: "array", items: { type: "boolean" }, maxItems: 3 }, minItems: 2, maxItems: 4 },
};
describe("a", () => {
  for (const [name, schema] of Object.entries(schemas)) {
    it(name, () => {
      const at = performance.now();
      const automaton = automatonOf(schema);
      console.log(name, automaton.flags.length, performance.now() - at);
      const check = compileSchema(schema, "x");
      const random = createRandom(1);
      for (let i = 0; i < 300; i++) {
        const text = walk(automaton, random.next);
        if (i < 4) console.log(text);
        expect(check(JSON.parse(text)), text).toEqual([]);
        expect(stateAfter(automaton, text)).toBeDefined();
      }
    });
  }
});
void stepOf;
