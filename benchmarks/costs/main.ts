/**
 * `npm run bench:costs`: what TypeScript itself costs around the engine, in processor time: the prompt of the next turn by the length
 * of the conversation so far (going on with a chain, and beginning anew), packing conversations into token trees, drawing a scenario;
 * and by the clock, writing the conversations of a step with their tokens.
 * --json (last line: the rows), --rounds N.
 */
import { parseArgs } from "node:util";
import { starterModelPath } from "@stateset-agents/starter-model";
import { createRandom, type Message } from "stateset-agents";
import { ChainBuilder, loadChatTokenizer } from "stateset-agents/policy";
import { microBatches } from "../../packages/stateset-agents/src/learning/micro-batch.ts";
import type { Unit } from "../../packages/stateset-agents/src/learning/pack.ts";
import { ScenarioOrder } from "../../packages/stateset-agents/src/training/scenario-order.ts";
import { describeMachine } from "../machine.ts";
import { measureRecording } from "./recording.ts";

const { values: flags } = parseArgs({
  options: { rounds: { type: "string", default: "400" }, json: { type: "boolean", default: false } },
});
const rounds = Number(flags.rounds);
const tokenizer = await loadChatTokenizer(starterModelPath);
const random = createRandom(1);
const words =
  "the order was late and I would like to know where my refund is please thanks for your help with this card".split(
    " ",
  );
const say = () => Array.from({ length: 25 }, () => words[random.below(words.length)]!).join(" ");
const prompt = { addGenerationPrompt: true };

/** A conversation of about `length` tokens that waits for its next user message. */
function converse(length: number): { chain: ChainBuilder; messages: Message[] } {
  const messages: Message[] = [
    { role: "system", content: say() },
    { role: "user", content: say() },
  ];
  const chain = new ChainBuilder({ messages, tokens: tokenizer.extend(undefined, messages, prompt).tokens });
  for (;;) {
    const message: Message = { role: "assistant", content: say() };
    const tokens = [...tokenizer.encode(message.content), tokenizer.endTokens[0]!];
    const reply = { message, text: tokenizer.decode(tokens, { skipSpecial: false }), ended: "end-token" as const };
    chain.record({ tokens, logprobs: new Float32Array(tokens.length) }, reply, messages.length);
    messages.push(message);
    if (chain.length >= length) return { chain, messages };
    messages.push({ role: "user", content: say() });
    const next = tokenizer.extend(chain, messages, prompt);
    if (next.kind !== "append") throw new Error(`The chain was not continued: ${next.reason}.`);
    chain.append(next.tokens, messages);
  }
}

/** Milliseconds of processor time for each of `count` calls. */
function timed(count: number, call: (i: number) => unknown): number {
  const before = process.cpuUsage();
  for (let i = 0; i < count; i++) call(i);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / count;
}

/** Of one prompt, each with a new message. */
function measure(messages: readonly Message[], extend: (messages: readonly Message[]) => unknown): number {
  const talks = Array.from({ length: rounds }, () => [...messages, { role: "user" as const, content: say() }]);
  return timed(rounds, (i) => extend(talks[i]!));
}

/** 512 conversations in groups of eight that share their first 1,000 tokens. */
function measurePacking(): number {
  const shared = Array.from({ length: 1000 }, () => random.below(5000));
  const units = Array.from({ length: 512 }, (_, i): Unit => {
    const tokens = Int32Array.from([...shared, ...Array.from({ length: 50 }, () => random.below(5000))]);
    return { chains: [{ tokens, learn: new Uint8Array(tokens.length).fill(1, 1000) }], group: i >> 3 };
  });
  const pack = () => [...microBatches(units, units.keys(), 8192)];
  for (let i = 0; i < 5; i++) pack();
  return timed(10, pack);
}

function measureDraws() {
  const scenarios = Array.from({ length: 100_000 }, (_, i) => ({ id: `scenario-${i}` }));
  const order = new ScenarioOrder(scenarios, 1);
  const weights = Object.fromEntries(scenarios.map(({ id }, i) => [id, 1 + (i % 3)]));
  const [even, weighted] = [order.weightedBy({}), order.weightedBy(weights)];
  return {
    first: timed(1, () => even(0)),
    next: timed(50_000, even),
    weighing: timed(1, () => order.weightedBy(weights)),
    weighted: timed(50_000, weighted),
  };
}

// Node compiles what runs often; that is no part of the cost.
const warm = converse(264);
for (let i = 0; i < 5; i++) measure(warm.messages, (talk) => tokenizer.extend(warm.chain, talk, prompt));

const rows = [264, 1100, 4400, 8800].map((length) => {
  const { chain, messages } = converse(length);
  const goOn = measure(messages, (talk) => tokenizer.extend(chain, talk, prompt));
  const beginAnew = measure(messages, (talk) => tokenizer.extend(undefined, talk, prompt));
  return { tokens: chain.length, messages: messages.length, goOn, beginAnew };
});
console.log(`${describeMachine()}\n\ntokens so far   go on (ms)   begin anew (ms)`);
for (const { tokens, goOn, beginAnew } of rows) {
  console.log(
    `${String(tokens).padStart(13)}   ${goOn.toFixed(3).padStart(10)}   ${beginAnew.toFixed(3).padStart(15)}`,
  );
}
const packing = measurePacking();
const draws = measureDraws();
console.log(`
512 conversations × 1,000 shared tokens into token trees: ${packing.toFixed(1)} ms
a scenario of 100,000: ${(1000 * draws.next).toFixed(2)} µs (the first of a round ${draws.first.toFixed(1)} ms, for shuffling);
by weight ${(1000 * draws.weighted).toFixed(2)} µs (${draws.weighing.toFixed(1)} ms a step for adding the weights up)`);
const recording = await measureRecording();
const { wall: stepMs, cpu: stepCpu } = recording.step;
console.log(
  `\na step of the demo: ${stepMs.toFixed(0)} ms, ${stepCpu.toFixed(0)} of the processors; writing it with its tokens:`,
);
for (const { groups, wall, wallShare, cpu, cpuShare, jsonlBytes, binBytes } of recording.costs) {
  const size = `${Math.round(jsonlBytes / 1024)} + ${Math.round(binBytes / 1024)} KiB`;
  const shares = `${(100 * wallShare).toFixed(2)}% and ${(100 * cpuShare).toFixed(2)}%`;
  console.log(`${groups} groups of 8: ${wall.toFixed(1)} ms, ${cpu.toFixed(1)} of the processors: ${shares} (${size})`);
}
if (flags.json) console.log(JSON.stringify({ prompts: rows, packing, draws, recording }));
