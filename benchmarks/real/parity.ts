/** Is it the same model? Greedy replies and log-probs of ours beside transformers and llama.cpp, on the same tokens. */
import { availableParallelism } from "node:os";
import { defaultSampling, openPolicy, type Policy } from "stateset-agents/policy";
import { jsonScenarios } from "./json-task.ts";
import { isGguf } from "./model.ts";
import { type Dequantised, dequantised, llama, torch } from "./peers.ts";

export interface Distance {
  mean: number;
  max: number;
}

export interface Parity {
  prompts: number;
  /** Of how many the greedy tokens are those of transformers. */
  greedyEqual?: number;
  /** Tokens until the first difference, where there is one. */
  firstDifferences?: number[];
  tokens: number;
  /** Of log-probs, in nats: ours to transformers on the dequantised weights. */
  transformers?: Distance;
  /** Ours to llama.cpp's run of the dequantised file, and llama.cpp's own run of the file as it is to the same. */
  llama?: { ours: Distance; itself: Distance };
}

const questions = [
  "What is the capital of France?",
  "Write one sentence about the sea.",
  "How do I reset my password?",
  "Name three fruits.",
  "Why is the sky blue?",
  "Translate to Spanish: Good morning, my friend.",
  "Give me a tip for sleeping better.",
  "What does a judge do?",
  "Write a short apology for a late delivery.",
  "Count from one to ten.",
  "Who wrote Romeo and Juliet?",
  "Explain what a mortgage is, in one sentence.",
];

const threads = availableParallelism();

export async function measureParity(model: string, quick: boolean): Promise<Parity> {
  const texts = [...questions, ...jsonScenarios("tuning", 12).map(({ userResponses }) => userResponses[0]!)];
  const asked = quick ? texts.slice(0, 4) : texts;
  const maxTokens = quick ? 16 : 48;
  const policy = await openPolicy({ model, threads });
  const prompts = asked.map((content) => {
    const { tokens } = policy.tokenizer.extend(undefined, [{ role: "user", content }], { addGenerationPrompt: true });
    return tokens;
  });
  const sampling = { ...defaultSampling, temperature: 0, maxTokens };
  const replies = await policy.sample(prompts.map((tokens) => ({ tokens, sampling, seed: 0 })));
  const sequences = prompts.map((prompt, i) => [...prompt, ...replies[i]!.tokens]);
  const own: number[] = [];
  for (const sequence of sequences) own.push(...(await scores(policy, sequence)));
  await policy.close();
  const plain = dequantised(model);
  return {
    prompts: asked.length,
    tokens: own.length,
    ...(plain && besideTransformers(plain, prompts, sequences, own)),
    ...(plain && isGguf(model) && besideLlama(model, plain, sequences, own)),
  };
}

function besideTransformers(
  { folder }: Dequantised,
  prompts: readonly Int32Array[],
  sequences: readonly number[][],
  own: readonly number[],
): Partial<Parity> {
  const scored = torch<{ logprobs: number[][]; likeliest: number[][] }>("score", { folder, sequences, threads });
  if (!scored) return {};
  // A reply is theirs while each token is the one that they hold likeliest after those before it.
  const differences = sequences.flatMap((sequence, i) => {
    const { length } = prompts[i]!;
    const at = sequence.slice(length).findIndex((token, j) => token !== scored.likeliest[i]![length + j - 1]);
    return at < 0 ? [] : [at];
  });
  return {
    greedyEqual: sequences.length - differences.length,
    firstDifferences: differences,
    transformers: distance(own, scored.logprobs.flat()),
  };
}

function besideLlama(
  model: string,
  { gguf }: Dequantised,
  sequences: readonly number[][],
  own: readonly number[],
): Partial<Parity> {
  const scored = (file: string) =>
    llama<{ logprobs: number[][] }>("score", { model: file, sequences, threads })?.logprobs;
  const small = scored(model);
  const plain = small && gguf && scored(gguf);
  if (!small || !plain) return {};
  return { llama: { ours: distance(own, plain.flat()), itself: distance(small.flat(), plain.flat()) } };
}

/** Of every token but the first. */
async function scores(policy: Policy, sequence: readonly number[]): Promise<number[]> {
  const { length } = sequence;
  const wanted = new Uint8Array(length).fill(1, 1);
  const nodes = { nodeStart: Int32Array.of(0, length), nodeParent: Int32Array.of(-1) };
  const { logprobs } = await policy.forward({ tokens: Int32Array.from(sequence), ...nodes, wanted }, { grad: false });
  return [...logprobs.subarray(1)];
}

function distance(a: readonly number[], b: readonly number[]): Distance {
  const far = a.map((value, i) => Math.abs(value - b[i]!));
  return { mean: far.reduce((sum, one) => sum + one, 0) / far.length, max: Math.max(...far) };
}
