import { describe, expect, it } from "vitest";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import { createRandom } from "../../random.ts";
import { accepts, callsOnly, randomText, stateAfter } from "../../test-support/walk-automaton.ts";
import { type CallFormatName, callFormatNames, isUnreadable } from "../format/call-format.ts";
import { callFormats } from "../format/choose-format.ts";
import { compileSchema } from "../schema/compile-schema.ts";
import { compileConstraint } from "./compile-constraint.ts";
import { readLimits } from "./limits.ts";
import { placeFlags } from "./nfa.ts";

function define(name: string, parameters: Record<string, unknown>): ToolDefinition {
  return { type: "function", function: { name, parameters } };
}

const tools: ToolDefinition[] = [
  define("find_order", {
    type: "object",
    properties: { id: { type: "string", pattern: "^[A-Z]\\d{3}$" }, deep: { type: "boolean" } },
    required: ["id"],
  }),
  define("find", {
    type: "object",
    properties: {
      words: { type: "array", items: { type: "string", maxLength: 4 }, maxItems: 2 },
      sort: { enum: ["up", "down", null] },
      price: {
        type: "object",
        properties: { least: { type: "number", minimum: 0, maximum: 10 } },
        required: ["least"],
      },
    },
    required: ["words"],
  }),
  define("ping", { type: "object", properties: {} }),
];
const constraint = (format: CallFormatName, of = tools, limits = {}, reasoning = false) =>
  compileConstraint({ tools: of, format: callFormats[format], limits: readLimits(limits), reasoning });

const isFree = (automaton: ReturnType<typeof constraint>, state: number) =>
  (automaton.flags[state]! & placeFlags.free) !== 0;

/** What a model of each format writes to open a call. */
const openings: Record<CallFormatName, string[]> = {
  hermes: ["<tool_call>", "Let me look.\n<tool_call>", "<tool_call<tool_call>"],
  llama3: ['{"name"', ' \n{ "name"', "Look: <|python_tag|>"],
  mistral: ["[TOOL_CALLS]", "Now [TOOL_CALLS]"],
  json: ['```json\n{"name"', 'So:\n```\n{ "name"', '```tool_call\n[{"name"', '```\ncode\n```\n{"name"'],
  pythonic: ["[find_order(", "ping(", " [ find("],
};

describe.each(callFormatNames)("calls in the format %s", (name) => {
  const format = callFormats[name];
  const checks = new Map(tools.map((tool) => [tool.function.name, compileSchema(tool.function.parameters, "it")]));
  const valid = (text: string) => {
    const { calls } = format.parse(text);
    expect(calls.length, text).toBeGreaterThan(0);
    for (const call of calls) {
      if (isUnreadable(call)) throw new Error(`${call.problem}: ${text}`);
      expect(checks.get(call.name)!(JSON.parse(call.arguments)), text).toEqual([]);
    }
    return calls.length;
  };

  it("are valid whatever is drawn once they are open, several of them too", () => {
    const automaton = callsOnly(format, tools);
    const { next } = createRandom(5);
    let [most, names] = [0, new Set<string>()];
    for (let i = 0; i < 1000; i++) {
      const text = randomText(automaton, next);
      most = Math.max(most, valid(text));
      for (const call of format.parse(text).calls) names.add(call.name!);
    }
    expect(names).toEqual(new Set(tools.map((tool) => tool.function.name)));
    expect(most).toBeGreaterThan(2);
  });

  it("begin with each of its openings, after words too, and nothing is free from there to the end of the call", () => {
    const automaton = constraint(name);
    for (const opening of openings[name]) {
      const open = stateAfter(automaton, opening)!;
      expect(isFree(automaton, open), opening).toBe(false);
      const { next } = createRandom(3);
      for (let i = 0; i < 50; i++) valid(opening + untilFree(automaton, open, next));
    }
  });

  it("can be written as the format prints them", () => {
    const automaton = constraint(name);
    const calls = [
      { name: "find", arguments: '{"words": ["é", "a\\"b"], "sort": null, "price": {"least": 2.5}}' },
      { name: "find_order", arguments: '{"id": "A123", "deep": true}' },
    ];
    expect(accepts(automaton, format.print(calls.slice(0, 1))), format.print(calls)).toBe(true);
    expect(accepts(automaton, format.print(calls)), format.print(calls)).toBe(true);
  });

  it("leaves words alone", () => {
    const automaton = constraint(name);
    const words = [
      "",
      "Hello.",
      "<tool_cal",
      '{"nam',
      "```json\n[1, 2]\n```",
      "See (a) [b] {c}",
      "é🙂\n\n",
      '{"x": 1}',
      "[1]",
    ];
    for (const text of words) {
      const state = stateAfter(automaton, text);
      expect(state !== undefined && isFree(automaton, state), text).toBe(true);
      expect(format.parse(text).calls, text).toEqual([]);
    }
    // Half of a character too: a token may hold that.
    expect(stateAfter(automaton, Uint8Array.of(0xf0, 0x9f))).toBeDefined();
  });

  it("cannot be opened in a way that no call follows", () => {
    const automaton = constraint(name);
    const never: Partial<Record<CallFormatName, string[]>> = {
      llama3: ['{"parameters":', '{ "arguments" :', '{\u00a0"name":'],
      json: ['```json\n{"arguments":', '```\n[{"parameters" :'],
      pythonic: ["print(", "[other.name("],
    };
    for (const text of never[name] ?? []) expect(stateAfter(automaton, text), text).toBeUndefined();
  });
});

/** What is drawn until the words go on, or the reply is over. */
function untilFree(automaton: ReturnType<typeof constraint>, from: number, next: () => number): string {
  const over = automaton.flags.map((flags) => (flags & placeFlags.free ? placeFlags.end : flags));
  const starts = Int32Array.from(automaton.starts);
  // Free states lead nowhere here.
  const kept: number[] = [];
  for (let state = 0; state < over.length; state++) {
    const first = kept.length;
    for (let at = automaton.starts[state]!; at < automaton.starts[state + 1]!; at++) {
      if (!(automaton.flags[state]! & placeFlags.free)) kept.push(at);
    }
    starts[state] = first;
  }
  starts[over.length] = kept.length;
  const ranges = Uint8Array.from(kept.flatMap((at) => [automaton.ranges[2 * at]!, automaton.ranges[2 * at + 1]!]));
  return randomText(
    { starts, ranges, targets: Int32Array.from(kept, (at) => automaton.targets[at]!), flags: over },
    next,
    from,
  );
}

describe("a constraint", () => {
  it("knows that a reply begins behind its thoughts", () => {
    const thought = '<think>hm</think>\n{"name"';
    const [with_, without] = [constraint("llama3", tools, {}, true), constraint("llama3", tools, {}, false)];
    expect(isFree(with_, stateAfter(with_, thought)!)).toBe(false);
    expect(isFree(without, stateAfter(without, thought)!)).toBe(true);
  });

  it("is refused for arguments that the format cannot write", () => {
    const odd = [define("odd", { type: "object", properties: { "a-b": { type: "string" } } })];
    expect(() => constraint("pythonic", odd)).toThrow(/cannot hold the argument "a-b", which is no name in Python/);
    expect(() => constraint("hermes", odd)).not.toThrow();
  });

  it("says which tool's schema nothing fits", () => {
    const never = define("never", {
      type: "object",
      properties: { a: { type: "integer", minimum: 3, maximum: 2 } },
      required: ["a"],
    });
    expect(() => constraint("hermes", [...tools, never])).toThrow(/no arguments that fit the tool "never"/);
    const endless = { type: "object", properties: { next: { $ref: "#" } }, required: ["next"] };
    expect(() => constraint("hermes", [define("endless", endless)])).toThrow(
      /no arguments that fit the tool "endless"/,
    );
  });
});

describe("schemas of strangers", () => {
  const object = (properties: Record<string, unknown>, rest = {}) => ({
    type: "object",
    properties,
    required: Object.keys(properties),
    ...rest,
  });
  const doubling = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => [
      `d${i}`,
      { anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
    ]),
  );
  const lists = Object.fromEntries(
    Array.from({ length: 30 }, (_, i) => [
      `d${i}`,
      object({ a: { $ref: `#/$defs/d${i + 1}` }, b: { $ref: `#/$defs/d${i + 1}` } }),
    ]),
  );
  const bombs: Record<string, Record<string, unknown>> = {
    "references that double": object(
      { a: { $ref: "#/$defs/d0" } },
      { $defs: { ...doubling, d40: { type: "string" } } },
    ),
    "objects that double": object({ a: { $ref: "#/$defs/d0" } }, { $defs: { ...lists, d30: { type: "null" } } }),
    "lists of lists of lists": object({
      a: ["", "", "", "", "", ""].reduce<Record<string, unknown>>((items) => ({ type: "array", items }), {
        type: "string",
      }),
    }),
    "a long string": object({ a: { type: "string", minLength: 10_000_000 } }),
    "many items": object({ a: { type: "array", items: { type: "string" }, minItems: 1_000_000 } }),
    "a huge enum": object({ a: { enum: Array.from({ length: 200_000 }, (_, i) => `${i}-${"x".repeat(20)}`) } }),
    "a pattern that remembers": object({ a: { type: "string", pattern: "(a|b)*a(a|b){60}" } }),
    "a pattern that multiplies": object({ a: { type: "string", pattern: "((((x{9}){9}){9}){9}){9}" } }),
    "a pattern of many classes": object({
      a: {
        type: "string",
        pattern: Array.from({ length: 300 }, (_, i) => `[${String.fromCharCode(0x4e00 + i)}-\\u9fff]`).join("|"),
      },
    }),
  };
  it.each(Object.entries(bombs))("%s: an error that names the tool, in bounded time", (_, parameters) => {
    expect(() => constraint("hermes", [define("bomb", parameters)])).toThrow(/"bomb"|too large/);
  });
});
