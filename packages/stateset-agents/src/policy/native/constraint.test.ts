import type { Model } from "@stateset-agents/engine";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeTinyModel } from "../../../test/tiny-model.ts";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import { callsOnly, stateAfter, stepOf } from "../../test-support/walk-automaton.ts";
import { compileConstraint } from "../../tool/constrain/compile-constraint.ts";
import { readLimits } from "../../tool/constrain/limits.ts";
import { type CallFormat, callFormatNames, isUnreadable } from "../../tool/format/call-format.ts";
import { callFormats } from "../../tool/format/choose-format.ts";
import { hermes } from "../../tool/format/hermes.ts";
import { compileSchema } from "../../tool/schema/compile-schema.ts";
import { openPolicy } from "../open-policy.ts";
import { type ByteAutomaton, defaultSampling, type Policy, type SampleRequest } from "../policy.ts";
import type { LoadedTokenizer } from "../tokenizer/index.ts";
import { Constraints } from "./constraints.ts";
import type { NativePolicy } from "./native-policy.ts";

const define = (name: string, parameters: Record<string, unknown>): ToolDefinition => ({
  type: "function",
  function: { name, parameters },
});

/** Everything that box 6 of the plan names: enum, nested, optional, arrays, $ref, unicode, numbers. */
const tools: ToolDefinition[] = [
  define("book", {
    type: "object",
    properties: {
      city: { enum: ["Köln", "Łódź", "東京", "NY"] },
      people: { type: "integer", minimum: 1, maximum: 12 },
      note: { type: "string", maxLength: 8 },
    },
    required: ["city", "people"],
  }),
  define("order", {
    type: "object",
    properties: {
      lines: {
        type: "array",
        items: {
          type: "object",
          properties: {
            sku: { type: "string", pattern: "^[A-Z]{2}\\d{2}$" },
            price: { type: "number", minimum: 0.5, maximum: 99.5 },
          },
          required: ["sku"],
        },
        minItems: 1,
        maxItems: 3,
      },
      gift: { type: ["boolean", "null"] },
    },
    required: ["lines"],
  }),
  define("tree", {
    $defs: {
      node: {
        type: "object",
        properties: { v: { type: "integer" }, next: { anyOf: [{ $ref: "#/$defs/node" }, { type: "null" }] } },
        required: ["v", "next"],
      },
    },
    type: "object",
    properties: { root: { $ref: "#/$defs/node" } },
    required: ["root"],
  }),
];

let policy: Policy;
beforeAll(async () => {
  const model = await makeTinyModel("llama", { max_position_embeddings: 1024 }, { scale: 0.4 });
  policy = await openPolicy({ model, threads: 1, slots: 16 });
});
afterAll(() => policy.close());

const request = (seed: number, constraint: ByteAutomaton | undefined, changes = {}): SampleRequest => ({
  tokens: Int32Array.of(1, 5 + (seed % 400), 9),
  sampling: { ...defaultSampling, maxTokens: 400, ...changes },
  seed,
  constraint,
});

const checks = new Map(tools.map((tool) => [tool.function.name, compileSchema(tool.function.parameters, "it")]));

/** Calls that are valid, and calls that the token limit cut: the last of a reply that it ended. */
function count(texts: readonly { text: string; cut: boolean }[], format: CallFormat = hermes) {
  const counts = { valid: 0, cut: 0 };
  for (const { text, cut } of texts) {
    const { calls } = format.parse(text);
    for (const [i, call] of calls.entries()) {
      const fits = !isUnreadable(call) && checks.get(call.name)?.(JSON.parse(call.arguments)).length === 0;
      if (fits) counts.valid++;
      else if (cut && i === calls.length - 1) counts.cut++;
      else throw new Error(`Not valid: ${text}`);
    }
  }
  return counts;
}

async function printed(requests: readonly SampleRequest[]) {
  const samples = await policy.sample(requests);
  return samples.map(({ tokens, finishReason }) => {
    const ended = policy.model.endTokens.includes(tokens.at(-1) ?? -1);
    const said = policy.tokenizer.decode(ended ? tokens.slice(0, -1) : tokens, { skipSpecial: false });
    return { text: said, cut: finishReason === "length" };
  });
}

describe("replies of a model with random weights", () => {
  it.each(callFormatNames)("are valid calls in the format %s", async (name) => {
    const constraint = callsOnly(callFormats[name], tools, { maxLength: 12, maxItems: 3 });
    const texts = await printed(Array.from({ length: 60 }, (_, i) => request(i, constraint)));
    const counts = count(texts, callFormats[name]);
    expect(counts.valid).toBeGreaterThan(30);
  });

  it.runIf(process.env.STATESET_SOAK)("are valid 100,000 times", { timeout: 3_600_000 }, async () => {
    const total = { valid: 0, cut: 0 };
    for (const name of callFormatNames) {
      const constraint = callsOnly(callFormats[name], tools, { maxLength: 12, maxItems: 3 });
      const own = { valid: 0, cut: 0 };
      for (let round = 0; own.valid < 20_000; round++) {
        const { valid, cut } = count(
          await printed(Array.from({ length: 500 }, (_, i) => request(round * 500 + i, constraint))),
          callFormats[name],
        );
        own.valid += valid;
        own.cut += cut;
      }
      total.valid += own.valid;
      total.cut += own.cut;
    }
    console.log(`${total.valid} calls, all valid; ${total.cut} more were cut by the token limit`);
    expect(total.valid).toBeGreaterThanOrEqual(100_000);
  });
});

describe("a constraint on the engine", () => {
  const constraint = () =>
    compileConstraint({ tools, format: hermes, limits: readLimits({ maxLength: 12 }), reasoning: false });

  it("tells which tokens were forced and how likely all that was taken away is, as plain arithmetic has it", async () => {
    const automaton = callsOnly(hermes, tools, { maxLength: 12, maxItems: 3 });
    const { bytes, control } = (policy as NativePolicy).tokenizer.tokenBytes()!;
    let forced = 0;
    for (const seed of [1, 2, 3]) {
      const asked = request(seed, automaton, { maxTokens: 60, temperature: 0.8 });
      const [sample] = await policy.sample([asked]);
      let state = 0;
      for (const at of [...sample!.tokens.keys()].filter((i) => i % 6 === 0)) {
        state = stateAfter(automaton, Buffer.concat(Array.from(sample!.tokens.slice(0, at), (id) => bytes[id]!)))!;
        const fits = (id: number) => {
          if (policy.model.endTokens.includes(id)) return (automaton.flags[state]! & 2) !== 0;
          const own = bytes[id];
          if (!own || own.length === 0 || (control.has(id) && !(automaton.flags[state]! & 4))) return false;
          let to: number | undefined = state;
          for (const byte of own) to = to === undefined ? undefined : stepOf(automaton, to, byte);
          return to !== undefined;
        };
        const row = await logprobsAfter(asked, sample!.tokens.slice(0, at));
        const all = [...row.keys()];
        const gone = all.filter((id) => !fits(id)).reduce((sum, id) => sum + Math.exp(row[id]!), 0);
        expect(fits(sample!.tokens[at]!)).toBe(true);
        expect(sample!.constrained!.removed[at]).toBeCloseTo(gone, 4);
        expect(sample!.constrained!.forced[at]).toBe(all.filter(fits).length === 1 ? 1 : 0);
        expect(sample!.logprobs[at]).toBe(row[sample!.tokens[at]!]);
        forced += sample!.constrained!.forced[at]!;
      }
    }
    expect(forced).toBeGreaterThan(0);
  });

  /** Of every token that could come next. */
  async function logprobsAfter({ tokens, sampling }: SampleRequest, reply: Int32Array): Promise<Float32Array> {
    const context = Int32Array.from([...tokens, ...reply]);
    const size = policy.model.vocabSize;
    const tree = {
      tokens: Int32Array.from([...context, ...Array.from({ length: size }, (_, id) => id)]),
      nodeStart: Int32Array.from([0, ...Array.from({ length: size + 1 }, (_, id) => context.length + id)]),
      nodeParent: Int32Array.from([-1, ...Array.from({ length: size }, () => 0)]),
      wanted: Uint8Array.from([...context.map(() => 0), ...Array.from({ length: size }, () => 1)]),
    };
    const { logprobs } = await policy.forward(tree, { grad: false, temperature: sampling.temperature });
    return logprobs.slice(context.length);
  }

  it("changes no bit where words are free, and none of others beside it", async () => {
    const plain = await policy.sample(Array.from({ length: 12 }, (_, i) => request(i, undefined, { maxTokens: 40 })));
    const held = constraint();
    const mixed = await policy.sample(
      Array.from({ length: 12 }, (_, i) => request(i, i % 2 === 0 ? held : undefined, { maxTokens: 40 })),
    );
    for (const [i, sample] of plain.entries()) {
      expect(mixed[i]!.tokens).toEqual(sample.tokens);
      expect(mixed[i]!.logprobs).toEqual(sample.logprobs);
      expect(sample.constrained).toBeUndefined();
      if (i % 2 === 0) expect(mixed[i]!.constrained!.removed.every((gone) => gone === 0)).toBe(true);
    }
  });

  it("gives the same reply alone and among others, with and without a cached prompt, streamed or not", async () => {
    const held = callsOnly(hermes, tools, { maxLength: 12, maxItems: 3 });
    const together = await policy.sample(Array.from({ length: 40 }, (_, i) => request(i, held)));
    for (const i of [3, 17, 39]) {
      const streamed: number[] = [];
      const [alone] = await policy.sample([request(i, callsOnly(hermes, tools, { maxLength: 12, maxItems: 3 }))], {
        onToken: ({ token }) => streamed.push(token),
      });
      expect(alone!.tokens).toEqual(together[i]!.tokens);
      expect(alone!.logprobs).toEqual(together[i]!.logprobs);
      expect(alone!.constrained).toEqual(together[i]!.constrained);
      expect(streamed).toEqual([...alone!.tokens]);
    }
  });

  it("leaves the others as they are when one is aborted", async () => {
    const held = callsOnly(hermes, tools, { maxLength: 12, maxItems: 3 });
    const controller = new AbortController();
    const onToken = () => controller.abort();
    const stopped = policy.sample([request(1, held)], { signal: controller.signal, onToken });
    const [beside] = await policy.sample([request(2, held)]);
    const [cut] = await stopped;
    const [whole, alone] = await policy.sample([request(1, held), request(2, held)]);
    expect(beside!.tokens).toEqual(alone!.tokens);
    // How far it got is up to the machine; what it drew is not.
    expect(cut!.tokens).toEqual(whole!.tokens.slice(0, cut!.tokens.length));
    expect(cut!.constrained!.forced).toEqual(whole!.constrained!.forced.slice(0, cut!.tokens.length));
  });

  it("holds under top-p, top-k, greedy, penalties and a smallest length", async () => {
    const held = callsOnly(hermes, tools, { maxLength: 12, maxItems: 3 });
    for (const shape of [
      { topP: 0.3 },
      { topK: 2 },
      { temperature: 0 },
      { repetitionPenalty: 1.3, presencePenalty: 1 },
      { minTokens: 390 },
      { minP: 0.2 },
    ]) {
      count(await printed(Array.from({ length: 6 }, (_, i) => request(i, held, shape))));
    }
  });

  it("keeps many constraints apart", async () => {
    const many = Array.from({ length: 40 }, (_, i) =>
      callsOnly(hermes, [define(`tool${i}`, { type: "object", properties: {} })]),
    );
    for (const round of [0, 1]) {
      const texts = await printed(many.map((held, i) => request(i + round, held, { maxTokens: 200 })));
      for (const [i, { text, cut }] of texts.entries()) if (!cut) expect(text).toContain(`"tool${i}"`);
    }
  });

  it("is refused where tokens do not spell bytes", async () => {
    expect(policy.capabilities.constrain).toBe(true);
    const stub = await openPolicy({ stub: { replies: ["hi"] } });
    expect(stub.capabilities.constrain).toBeFalsy();
  });

  it.each([
    ["of planes that Unicode has not assigned", [0xf1, 0xf2, 0xf3], true],
    ["that letters are made of", [0xc3], false],
    ["that characters go on with", [0x9f], false],
  ])("can do without tokens of some bytes alone: those %s", (_, missing, supported) => {
    const bytes = Array.from({ length: 256 }, (_, byte) => (missing.includes(byte) ? undefined : Uint8Array.of(byte)));
    const tokenizer = { tokenBytes: () => ({ bytes, control: new Set<number>() }) };
    const engine = { setVocabulary() {} };
    const constraints = new Constraints(engine as unknown as Model, tokenizer as unknown as LoadedTokenizer, 256);
    expect(constraints.supported).toBe(supported);
  });
});
