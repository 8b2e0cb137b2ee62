import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import type { ByteAutomaton } from "../../policy/policy.ts";
import { createRandom } from "../../random.ts";
import { accepts, randomText, stateAfter } from "../../test-support/walk-automaton.ts";
import { type CallFormatName, callFormatNames, isUnreadable } from "../format/call-format.ts";
import { callFormats } from "../format/choose-format.ts";
import { compileSchema } from "../schema/compile-schema.ts";
import { type ConstraintOptions, compileConstraint } from "./compile-constraint.ts";
import { readLimits } from "./limits.ts";
import { placeFlags } from "./nfa.ts";

const object = (properties: Record<string, unknown>) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
});
const define = (name: string, properties: Record<string, unknown>): ToolDefinition => ({
  type: "function",
  function: { name, parameters: object(properties) },
});
const tools = [
  define("find", { words: { type: "array", items: { type: "string", maxLength: 3 }, maxItems: 2 } }),
  define("ping", {}),
];
const answer = { schema: object({ city: { type: "string", maxLength: 20 }, people: { type: "integer" } }) };
const checkAnswer = compileSchema(answer.schema, "the answer");

const compile = (format: CallFormatName | undefined, changes: Partial<ConstraintOptions> = {}) =>
  compileConstraint({
    tools: format ? tools : [],
    format: format && callFormats[format],
    limits: readLimits(true),
    reasoning: false,
    ...changes,
  });

/** Texts drawn from it, with the calls that are read from each. */
function drawn(automaton: ByteAutomaton, format: CallFormatName, count = 300) {
  const { next } = createRandom(7);
  return Array.from({ length: count }, () => {
    const text = randomText(automaton, next);
    const { content, calls } = callFormats[format].parse(text);
    for (const call of calls) if (isUnreadable(call)) throw new Error(`${call.problem}: ${text}`);
    return { text, content, names: calls.map(({ name }) => name!) };
  });
}

describe("a constraint with nothing new asked for", () => {
  // Sums of the tables as they were when words were all that could stand around calls.
  const before: Record<string, string> = {
    hermes: "b0f7a2aa4049dfb5",
    llama3: "9fe5724ee7409955",
    mistral: "c2e1ab018ea395de",
    json: "ec2e4795a335edb9",
    pythonic: "9841b0ea914f7bf6",
  };
  it.each(callFormatNames)("is the same bytes as ever in the format %s", (name) => {
    const hash = createHash("sha256");
    for (const reasoning of [false, true]) {
      const { starts, ranges, targets, flags } = compile(name, { reasoning });
      for (const { buffer } of [starts, ranges, targets, flags]) hash.update(new Uint8Array(buffer));
    }
    expect(hash.digest("hex").slice(0, 16)).toBe(before[name]);
  });

  it.each(callFormatNames)("is what the defaults say, in the format %s", (name) => {
    expect(compile(name, { choice: "auto", parallel: true, answer: undefined })).toEqual(compile(name));
  });
});

describe.each(callFormatNames)("a reply in the format %s", (name) => {
  const { print } = callFormats[name];
  const find = { name: "find", arguments: '{"words": ["a"]}' };
  const ping = { name: "ping", arguments: "{}" };

  it("must be calls where they are required, from its first byte to its last", () => {
    const automaton = compile(name, { choice: "required" });
    for (const text of ["", "Hello", "H", "<tool", "[1]", "{}"]) expect(accepts(automaton, text), text).toBe(false);
    expect(stateAfter(automaton, "Hello")).toBeUndefined();
    for (const text of [print([find]), print([ping, find])]) expect(accepts(automaton, text), text).toBe(true);
    expect(stateAfter(automaton, `${print([find])} And so on.`)).toBeUndefined();
    const texts = drawn(automaton, name);
    expect(texts.every(({ content, names }) => content === "" && names.length > 0)).toBe(true);
    expect(texts.some(({ names }) => names.length > 1)).toBe(true);
  });

  it("calls the tool that is named and no other", () => {
    const automaton = compile(name, { choice: { name: "ping" } });
    expect(accepts(automaton, print([ping]))).toBe(true);
    expect(accepts(automaton, print([find]))).toBe(false);
    expect(new Set(drawn(automaton, name).flatMap(({ names }) => names))).toEqual(new Set(["ping"]));
  });

  it("ends after one call where they may not be parallel", () => {
    const [required, auto] = [
      compile(name, { choice: "required", parallel: false }),
      compile(name, { parallel: false }),
    ];
    expect(drawn(required, name).every(({ names }) => names.length === 1)).toBe(true);
    for (const automaton of [required, auto]) {
      expect(accepts(automaton, print([find]))).toBe(true);
      expect(accepts(automaton, print([find, ping]))).toBe(false);
      expect(stateAfter(automaton, `${print([find])} And`)).toBeUndefined();
    }
    expect(accepts(auto, "Only words.")).toBe(true);
  });

  it("is calls or the answer, where both may be", () => {
    const texts = drawn(compile(name, { answer }), name);
    const [calling, answering] = [
      texts.filter(({ names }) => names.length > 0),
      texts.filter(({ names }) => names.length === 0),
    ];
    expect(calling.length).toBeGreaterThan(20);
    expect(answering.length).toBeGreaterThan(3);
    expect(calling.every(({ content }) => content === "")).toBe(true);
    for (const { text } of answering) expect(checkAnswer(JSON.parse(text)), text).toEqual([]);
  });

  it("has no answer that would be read as a call", () => {
    const automaton = compile(name, { answer });
    const said = (city: string) => JSON.stringify({ city, people: 2 });
    for (const marker of callFormats[name].markers.slice(0, 1)) {
      expect(accepts(automaton, said(marker)), marker).toBe(false);
      expect(accepts(compile(undefined, { answer }), said(marker))).toBe(true);
      expect(accepts(automaton, said(marker.slice(0, -1)))).toBe(true);
    }
    expect(accepts(automaton, said("```json [{"))).toBe(true);
    // Arguments may hold it: there it is no call of its own.
    const spelt = { name: "find", arguments: JSON.stringify({ words: ["<|p"] }) };
    expect(accepts(automaton, print([spelt]))).toBe(true);
    const any = compile(name, { answer: { schema: true } });
    for (const { text, names } of drawn(any, name))
      if (names.length === 0) expect(JSON.parse(text)).toBeTypeOf("object");
    expect(accepts(any, '{"name": 3}')).toBe(name !== "llama3");
    expect(accepts(any, '{"city": {"name": 3}}')).toBe(true);
  });

  it("is free before it begins behind its thoughts, and held from there on", () => {
    for (const changes of [{ choice: "required" }, { answer }] as const) {
      const automaton = compile(name, { ...changes, reasoning: true });
      for (const thought of ["", "<think>Hm", "I </thin <</think", print([ping]), '{"city'])
        expect(automaton.flags[stateAfter(automaton, thought)!], thought).toBe(placeFlags.free);
      const behind = stateAfter(automaton, "<think>a</think>\n\n")!;
      expect(automaton.flags[behind]! & (placeFlags.free | placeFlags.end)).toBe(0);
      expect(stateAfter(automaton, "H", behind)).toBeUndefined();
      expect(accepts(automaton, `Hm</think>\n\n${print([ping])}`)).toBe(true);
      expect(accepts(automaton, 'Hm</think>{"city": "Köln", "people": 2}')).toBe("answer" in changes);
    }
  });
});

describe("an answer", () => {
  it("needs no tools and no format", () => {
    const automaton = compile(undefined, { answer });
    const { next } = createRandom(3);
    for (let i = 0; i < 200; i++) expect(checkAnswer(JSON.parse(randomText(automaton, next)))).toEqual([]);
    for (const text of [
      "",
      "Sure: {}",
      '{"city": "a"}',
      '{"people": 1, "city": "a"}',
      '{"city": "a", "people": 1, "b": 2}',
    ])
      expect(accepts(automaton, text), text).toBe(false);
  });

  it("is not asked for where calls are required", () => {
    expect(compile("hermes", { choice: "required", answer })).toEqual(compile("hermes", { choice: "required" }));
  });

  it("may be any JSON object, so deep", () => {
    const automaton = compile(undefined, { answer: { schema: true }, limits: readLimits({ maxDepth: 2 }) });
    const { next } = createRandom(3);
    const depthOf = (value: unknown): number =>
      typeof value === "object" && value ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;
    const depths = Array.from({ length: 300 }, () => {
      const value = JSON.parse(randomText(automaton, next));
      expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
      return depthOf(value);
    });
    expect(new Set(depths)).toEqual(new Set([1, 2]));
    for (const text of ["{}", '{"a": [], "é\\n": [1, -2.5e3, true, null, "x"]}', '{"a":{"b":1},"a":2}'])
      expect(accepts(automaton, text), text).toBe(true);
    for (const text of ["[]", "1", '{"a": [[]]}', '{"a"}', '{"a": 01}', "{,}"])
      expect(accepts(automaton, text), text).toBe(false);
  });

  it("has strings of any length where nothing bounds them, in few states", () => {
    const schema = object({ text: { type: "string" }, code: { type: "string", pattern: "^[a-z]+$" } });
    const limits = { ...readLimits(true), maxLength: Number.POSITIVE_INFINITY };
    const automaton = compile(undefined, { answer: { schema }, limits });
    expect(accepts(automaton, JSON.stringify({ text: "a\né".repeat(5000), code: "ab" }))).toBe(true);
    expect(automaton.flags.length).toBeLessThan(compile(undefined, { answer: { schema } }).flags.length / 2);
  });
});

describe("what cannot be held", () => {
  it.each([
    ["no format", () => compileConstraint({ tools, limits: readLimits(true), reasoning: false }), /in which format/],
    ["a tool that is not there", () => compile("hermes", { choice: { name: "pong" } }), /"pong".*Did you mean "ping"/],
    ["calls without tools", () => compile(undefined, { choice: "required" }), /there are no tools/],
    [
      "a name that the format has not",
      () => compile("pythonic", { tools: [define("a-b", {})] }),
      /cannot write calls to "a-b"/,
    ],
    [
      "an answer that is a call",
      () => compile("llama3", { answer: { schema: object({ name: { type: "string" } }) } }),
      /an answer that begins with "name" beside tools: in the format llama3/,
    ],
    [
      "nothing",
      () => compile(undefined, { answer: { schema: object({ a: { type: "integer", minimum: 2, maximum: 1 } }) } }),
      /nothing that fits the answer/,
    ],
    [
      "a keyword",
      () => compile(undefined, { answer: { schema: { not: {} } } }),
      /cannot hold "not" \(the answer's schema, at #\)/,
    ],
    [
      "too much",
      () => compile(undefined, { answer: { schema: { type: "string", minLength: 1e7 } } }),
      /the answer's schema is too large: it needs more than 200000 places/,
    ],
    [
      "too deep",
      () => compile(undefined, { answer: { schema: true }, limits: readLimits({ maxDepth: 16 }) }),
      /too large: it needs more than/,
    ],
  ] as const)("%s: an error that names it", (_, make, error) => {
    expect(make).toThrow(error);
  });
});
