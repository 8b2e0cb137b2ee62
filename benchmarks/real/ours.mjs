// Our side of speed and memory, in a process of its own: `ours.mjs decode|train <request as JSON>` prints one JSON object on its last line.
// Plain JavaScript on the built package, as users run it: a TypeScript loader would count as memory.
import { readFileSync } from "node:fs";
import { openPolicy } from "stateset-agents/policy";

const mode = process.argv[2];
const request = JSON.parse(process.argv[3]);
const { model, threads } = request;

/** Arbitrary tokens, none of them special. */
const tokensOf = (count, from) => Int32Array.from({ length: count }, (_, i) => 100 + ((7919 * (from + i)) % 19_000));

async function decode() {
  const { batch, prompt, tokens, runs } = request;
  const policy = await openPolicy({ model, threads });
  const once = async (count) => {
    const fixed = { temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stop: [], stopTokens: [] };
    const sampling = { ...fixed, maxTokens: count, minTokens: count };
    const started = performance.now();
    await policy.sample(
      Array.from({ length: batch }, (_, i) => ({ tokens: tokensOf(prompt, i * prompt), sampling, seed: i })),
    );
    return (performance.now() - started) / 1000;
  };
  await once(4);
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < runs; i++) best = Math.min(best, await once(tokens));
  await policy.close();
  return { perSecond: (batch * tokens) / best };
}

async function train() {
  const { rank, alpha, sequences, length, steps } = request;
  const policy = await openPolicy({ model, threads, lora: { rank, alpha, dropout: 0, targetModules: "all-linear" } });
  const count = sequences * length;
  const wanted = new Uint8Array(count).fill(1);
  for (let i = 0; i < sequences; i++) wanted[i * length] = 0;
  const tree = {
    tokens: tokensOf(count, 0),
    nodeStart: Int32Array.from({ length: sequences + 1 }, (_, i) => i * length),
    nodeParent: new Int32Array(sequences).fill(-1),
    wanted,
  };
  const learnt = count - sequences;
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < steps; i++) {
    const started = performance.now();
    const pass = await policy.forward(tree);
    await policy.backward(pass, { logprobs: Float32Array.from(wanted, (one) => (one ? -1 / learnt : 0)) });
    await policy.step({ learningRate: 1e-5, clipNorm: 1 });
    // The first step only warms up.
    if (i > 0 || steps === 1) best = Math.min(best, (performance.now() - started) / 1000);
  }
  const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"));
  await policy.close();
  return { peakBytes: Number(peak[1]) * 1024, seconds: best };
}

console.log(JSON.stringify(await { decode, train }[mode]()));
