import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import { createRandom } from "../../random.ts";
import { callsOnly, randomText } from "../../test-support/walk-automaton.ts";
import { type CallFormatName, callFormatNames, isUnreadable } from "./call-format.ts";
import { callFormats } from "./choose-format.ts";
import { type CallEvent, streamCalls } from "./stream-calls.ts";

const define = (name: string, properties: Record<string, unknown>): ToolDefinition => ({
  type: "function",
  function: { name, parameters: { type: "object", properties, required: Object.keys(properties) } },
});
const tools = [
  define("find", {
    q: { type: "string", maxLength: 6 },
    at: { type: "array", items: { type: "integer" }, maxItems: 2 },
  }),
  define("ping", {}),
  define("find_more", { deep: { type: "object", properties: { name: { type: "string", maxLength: 4 } } } }),
];

/** Events as one text and one list of calls. */
function joined(events: readonly CallEvent[]) {
  const read = { text: "", calls: [] as { name: string; arguments: string }[] };
  for (const event of events) {
    if (event.kind === "text") {
      expect(read.calls).toEqual([]);
      read.text += event.text;
    } else if (event.kind === "call")
      expect(read.calls.push({ name: event.name, arguments: "" })).toBe(event.index + 1);
    else read.calls[event.index]!.arguments += event.text;
  }
  return read;
}

function streamed(name: CallFormatName, pieces: readonly string[], live: boolean) {
  const stream = streamCalls({ format: callFormats[name], live });
  return [...pieces.flatMap((piece) => stream.push(piece)), ...stream.end()];
}

/** What must come out: the calls and the words before them, or, of calls that cannot be read, all as words. */
function expected(name: CallFormatName, text: string) {
  const { content, calls } = callFormats[name].parse(text);
  const readable = calls.flatMap((call) =>
    isUnreadable(call) ? [] : [{ name: call.name, arguments: call.arguments }],
  );
  if (calls.length === 0 || readable.length < calls.length) return { text, calls: [] };
  return { text: content, calls: readable };
}

const pieces = (text: string, cuts: readonly number[]) => {
  const at = [...new Set(cuts.map((cut) => Math.floor(cut * (text.length + 1))))].sort((a, b) => a - b);
  return [0, ...at].map((from, i) => text.slice(from, at[i]));
};
const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), { maxLength: 40 });

/** Parts that replies are made of, in any order and number. */
const parts = [
  ...[
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|python_tag|>",
    "```",
    "```json\n",
    "```tool",
    "\n",
    " ",
    ";",
    ",",
  ],
  ...[
    '{"name": "f", "arguments": {"a": [1, "}"]}}',
    '{"name": "g", "parameters": {}}',
    '{"name": "h"}',
    '{ "name"',
    '{"x": 1}',
  ],
  ...[
    '{"arguments": {}, "name": "late"}',
    '{"name": "s", "arguments": "{\\"a\\": 1}"}',
    '{"name": "n", "arguments": null}',
  ],
  ...["f(a=1)", "g()", "[", "]", "f[ARGS]{}", "f{", "Words, é.", "  ", "<tool", "`"],
];

describe.each(callFormatNames)("a reply in the format %s, in pieces", (name) => {
  it("is told as parse() reads the whole, however it is cut and whatever it holds", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...parts), { maxLength: 12 }), cuts, (all, at) => {
        const text = all.join("");
        expect(joined(streamed(name, pieces(text, at), false)), text).toEqual(expected(name, text));
      }),
      { numRuns: 3000, seed: 16 },
    );
  });

  it("is told while it is sampled where it is constrained", () => {
    const automaton = callsOnly(callFormats[name], tools, { maxItems: 2 });
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 31 }), cuts, fc.boolean(), (seed, at, after) => {
        const words = after && (name === "hermes" || name === "mistral" || name === "json") ? "Look: {é}\n" : "";
        const text = words + randomText(automaton, createRandom(seed).next);
        const read = expected(name, text);
        expect(read.calls.length).toBeGreaterThan(0);
        expect(joined(streamed(name, pieces(text, at), true)), text).toEqual(read);
        expect(joined(streamed(name, [...text], true)), text).toEqual(read);
      }),
      { numRuns: 200, seed: 16 },
    );
  });

  it("is told live as parse() reads the whole where its calls can be read", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...parts), { maxLength: 8 }), cuts, (all, at) => {
        const text = all.join("");
        const { calls } = callFormats[name].parse(text);
        if (calls.some(isUnreadable)) return;
        expect(joined(streamed(name, pieces(text, at), true)), text).toEqual(expected(name, text));
      }),
      { numRuns: 3000, seed: 17 },
    );
  });
});

describe("a call that is told while it is sampled", () => {
  const text = {
    hermes: '<tool_call>\n{"name": "find", "arguments": {"q": "a}"}}\n</tool_call>',
    llama3: '{"name": "find", "parameters": {"q": "a}"}}',
    mistral: '[TOOL_CALLS]find[ARGS]{"q": "a}"}',
    json: '```json\n[{"name": "find", "arguments": {"q": "a}"}}]\n```',
  };
  it.each([...Object.entries(text), ["mistral", `[TOOL_CALLS] [${text.llama3}]`]] as [CallFormatName, string][])(
    "%s: has its name before its arguments, and those bit by bit",
    (name, written) => {
      const stream = streamCalls({ format: callFormats[name], live: true });
      const before = written.slice(0, written.indexOf('{"q"') + 1);
      expect([...before].flatMap((char) => stream.push(char))).toEqual([
        { kind: "call", index: 0, name: "find" },
        { kind: "arguments", index: 0, text: "{" },
      ]);
      expect(stream.push('"q": ')).toEqual([{ kind: "arguments", index: 0, text: '"q": ' }]);
      // The token limit cuts it: what was told stays.
      expect(stream.end()).toEqual([]);
    },
  );

  it("pythonic: is whole", () => {
    const stream = streamCalls({ format: callFormats.pythonic, live: true });
    expect(stream.push("[f(a=1)]")).toEqual([]);
    expect(stream.end().map(({ kind }) => kind)).toEqual(["call", "arguments"]);
  });

  it("is words where it was cut before its name was known", () => {
    expect(joined(streamed("hermes", ['Hm. <tool_call>{"na'], true))).toEqual({
      text: 'Hm. <tool_call>{"na',
      calls: [],
    });
  });
});
