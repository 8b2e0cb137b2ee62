// `node --expose-gc gives-up.mjs` samples with activations kept, then takes nearly all memory that the process may still have, and trains
// on what was sampled. Prints as JSON what came of it: without activations, with some to give up, with some and room for both, and with
// plenty of memory; and of the way back of a pass, without and with activations of another reply to give up.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { openModel } from "../dist/index.mjs";

const MIB = 2 ** 20;
const shape = {
  ...{ vocab: 64, hidden: 1024, layers: 2, heads: 4, kvHeads: 4, headDim: 16, inter: 1024, maxPositions: 2048 },
  ...{ norm: "rms", normEps: 1e-5, mlp: "swiglu", position: "rope", ropeTheta: 10_000, ropeScaling: undefined },
  ...{ tied: true, qkvBias: false, outBias: false, mlpBias: false, qkNorm: false, slidingWindow: undefined },
};
const sampling = { temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, seed: 1 };
const wants = { grad: true, entropy: false, values: false, hidden: false, adapters: true, recompute: false };
const prompt = Int32Array.from({ length: 1500 }, (_, i) => (11 * i + 5) % 64);

function limit(bytes) {
  execFileSync("prlimit", ["--pid", String(process.pid), `--as=${bytes}:`]);
}

function leave(room) {
  gc();
  gc();
  limit(1024 * Number(/VmSize:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]) + room);
}

async function train(model, batch, room) {
  leave(room);
  const answer = model.forward(batch, { ...wants, temperature: 1, dropoutSeed: undefined });
  const result = await answer.then(
    async ({ pass, logprobs }) => {
      await model.release(pass);
      return { logprobs: [...logprobs.slice(prompt.length)] };
    },
    ({ code }) => ({ code }),
  );
  limit("unlimited");
  const { activationBytes, reusedTokens } = await model.stats();
  return { ...result, after: activationBytes, reusedTokens };
}

async function open(activationBytes) {
  const model = await openModel(shape, { threads: 1, slots: 1, cacheBytes: 256 * MIB, activationBytes });
  for (const { name, rows, cols } of await model.tensors()) {
    const data = new Float32Array(rows * cols);
    await model.setTensor(
      name,
      data.map((_, i) => (name.endsWith("norm.weight") ? 1 : Math.sin(i))),
    );
  }
  await model.setTrainable("full");
  return model;
}

/** What trains on a reply that is sampled. */
async function sampled(model, prompt) {
  const request = { ...sampling, tokens: prompt, stopTokens: new Int32Array(), maxTokens: 8, keepActivations: true };
  const reply = await model.sample(request).reply;
  const tokens = Int32Array.of(...prompt, ...reply.tokens);
  const nodes = { nodeStart: Int32Array.of(0, tokens.length), nodeParent: Int32Array.of(-1) };
  return { tokens, ...nodes, wanted: new Uint8Array(tokens.length).fill(1, prompt.length) };
}

async function run(activationBytes, room) {
  const model = await open(activationBytes);
  const batch = await sampled(model, prompt);
  const { activationBytes: before } = await model.stats();
  const result = { before, ...(await train(model, batch, room)) };
  await model.close();
  return result;
}

async function wayBack(activationBytes, room) {
  const model = await open(activationBytes);
  const batch = await sampled(model, prompt);
  await sampled(
    model,
    prompt.map((token) => 63 - token),
  );
  const { activationBytes: before } = await model.stats();
  const { pass } = await model.forward(batch, { ...wants, temperature: 1, dropoutSeed: undefined });
  leave(room);
  const logprobs = new Float32Array(batch.tokens.length).fill(1, prompt.length);
  const code = await model.backward(pass, { logprobs, valuesIntoTrunk: false }).then(
    () => "none",
    (error) => error.code,
  );
  limit("unlimited");
  const { activationBytes: after } = await model.stats();
  const gradient = code === "none" ? [...(await model.readFlat("gradients")).subarray(0, 1000)] : undefined;
  await model.close();
  return { before, after, code, gradient };
}

const kept = 512 * MIB;
console.log(
  JSON.stringify({
    without: await run(0, 32 * MIB),
    givenUp: await run(kept, 32 * MIB),
    reused: await run(kept, 64 * MIB),
    plenty: await run(0, 2048 * MIB),
    backWithout: await wayBack(0, 16 * MIB),
    backGivenUp: await wayBack(kept, 16 * MIB),
    backPlenty: await wayBack(0, 2048 * MIB),
  }),
);
