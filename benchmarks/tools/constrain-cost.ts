/**
 * `npx tsx benchmarks/tools/constrain-cost.ts`: what `constrain` costs, on the bundled model with one thread: sampled tokens a processor
 * second without a constraint, with one while words are free, within calls, and within an answer that is JSON of a schema; the making
 * of the automaton; and the tokens of its masks, which are found once. 16 streams at a time. The last line is what masks take of
 * decoding. --replies N.
 */
import { parseArgs } from "node:util";
import { starterModelPath } from "@stateset-agents/starter-model";
import type { ToolDefinition } from "stateset-agents";
import { type ByteAutomaton, openPolicy } from "stateset-agents/policy";
import { compileConstraint } from "../../packages/stateset-agents/src/tool/constrain/compile-constraint.ts";
import { readLimits } from "../../packages/stateset-agents/src/tool/constrain/limits.ts";
import { hermes } from "../../packages/stateset-agents/src/tool/format/hermes.ts";
import { describeMachine } from "../machine.ts";

const { values: flags } = parseArgs({ options: { replies: { type: "string", default: "64" } } });
const replies = Number(flags.replies);

const text = { type: "string" };
const define = (name: string, properties: Record<string, unknown>): ToolDefinition => ({
  type: "function",
  function: { name, parameters: { type: "object", properties, required: Object.keys(properties).slice(0, 2) } },
});
const tools = [
  define("find_order", { id: { type: "string", pattern: "^[A-Z]\\d{4}$" }, email: text }),
  define("refund", {
    id: text,
    amount: { type: "number", minimum: 0, maximum: 500 },
    why: { enum: ["late", "broken", "other"] },
  }),
  define("search", {
    words: { type: "array", items: text },
    sort: { enum: ["price", "date"] },
    most: { type: "integer" },
  }),
];

/** Longer than a reply may be, so that every reply is. */
const answer = {
  schema: {
    type: "object",
    properties: {
      city: { enum: ["Köln", "Łódź", "東京", "New York"] },
      people: { type: "integer", minimum: 1, maximum: 40 },
      why: { type: "string", minLength: 60, maxLength: 200 },
      lines: {
        type: "array",
        minItems: 4,
        items: {
          type: "object",
          properties: {
            sku: { type: "string", pattern: "^[A-Z]{2}\\d{4}$" },
            price: { type: "number", minimum: 0 },
            gift: { type: "boolean" },
          },
          required: ["sku", "price", "gift"],
        },
      },
    },
    required: ["city", "people", "why", "lines"],
  },
};

const seconds = (before: NodeJS.CpuUsage) => {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
};

const policy = await openPolicy({ model: starterModelPath, threads: 1, slots: 16 });
const made = process.cpuUsage();
const constraint = compileConstraint({ tools, format: hermes, limits: readLimits(true), reasoning: false });
const making = seconds(made);
const answered = compileConstraint({ tools: [], limits: readLimits(true), reasoning: false, answer });

const prompt = policy.tokenizer.extend(undefined, [{ role: "user", content: "I want my money back." }], {
  tools,
  addGenerationPrompt: true,
}).tokens;
/** With `opened`, replies begin inside a call. */
async function rate(held: ByteAutomaton | undefined, opened: boolean): Promise<number> {
  const open = policy.tokenizer.encode("<tool_call>", { control: true })[0]!;
  const sampling = {
    ...{ temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, maxTokens: 48, minTokens: 48 },
    ...{ stop: [], stopTokens: [], ...(opened && { logitBias: { [open]: 60 } }) },
  };
  const requests = Array.from({ length: replies }, (_, seed) => ({ tokens: prompt, sampling, seed, constraint: held }));
  const before = process.cpuUsage();
  const samples = await policy.sample(requests);
  return samples.reduce((sum, { tokens }) => sum + tokens.length, 0) / seconds(before);
}

await rate(undefined, false);
const cold = await rate(constraint, true);
// Each in turn, so that all meet the same machine; the best of each.
const coldAnswer = await rate(answered, false);
const best = { without: 0, words: 0, calls: 0, answers: 0 };
for (let round = 0; round < 5; round++) {
  best.without = Math.max(best.without, await rate(undefined, false));
  best.words = Math.max(best.words, await rate(constraint, false));
  best.calls = Math.max(best.calls, await rate(constraint, true));
  best.answers = Math.max(best.answers, await rate(answered, false));
}
const row = (name: string, value: number) =>
  console.log(
    `${name.padEnd(44)} ${value.toFixed(0).padStart(7)} tokens a processor second  ${(value / best.without).toFixed(2)}`,
  );
console.log(describeMachine());
console.log(
  `${replies} replies of 48 tokens, ${tools.length} tools, ${constraint.flags.length} states made in ${making.toFixed(2)} s`,
);
row("without a constraint", best.without);
row("with one, words", best.words);
row("with one, calls", best.calls);
row("with one, calls, masks found for the first time", cold);
row("with one, JSON of a schema", best.answers);
row("the same, masks found for the first time", coldAnswer);
console.log(
  `masks take ${(100 * (1 - best.answers / best.without)).toFixed(1)}% of decoding (processor time, JSON of a schema)`,
);
await policy.close();
