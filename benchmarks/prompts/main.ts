/**
 * `npm run bench:prompts`: what the prompt of the next turn costs on the starter model's tokenizer, by the length of the
 * conversation so far, in milliseconds of processor time: going on with a chain, and beginning anew.
 * --json (last line: the rows), --rounds N.
 */
import { parseArgs } from "node:util";
import { starterModelPath } from "@stateset-agents/starter-model";
import { ChainBuilder, createRandom, loadChatTokenizer, type Message } from "stateset-agents";
import { describeMachine } from "../machine.ts";

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
    const reply = { message, text: tokenizer.decode(tokens, { skipSpecial: false }), ended: true };
    chain.record({ tokens, logprobs: new Float32Array(tokens.length) }, reply, messages.length);
    messages.push(message);
    if (chain.length >= length) return { chain, messages };
    messages.push({ role: "user", content: say() });
    const next = tokenizer.extend(chain, messages, prompt);
    if (next.kind !== "append") throw new Error(`The chain was not continued: ${next.reason}.`);
    chain.append(next.tokens, messages);
  }
}

/** Milliseconds of processor time for one call, each with a new message. */
function measure(messages: readonly Message[], extend: (messages: readonly Message[]) => unknown): number {
  const talks = Array.from({ length: rounds }, () => [...messages, { role: "user" as const, content: say() }]);
  const before = process.cpuUsage();
  for (const talk of talks) extend(talk);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / rounds;
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
if (flags.json) console.log(JSON.stringify(rows));
