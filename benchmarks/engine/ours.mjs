// Our side, in a process of its own: `ours.mjs <parts, by commas> <shape and work as JSON>` prints one JSON object.
// Plain JavaScript on the built package, as users run it: a TypeScript loader would count as memory.
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { openModel } from "@stateset-agents/engine";

const parts = process.argv[2].split(",");
const { config, loraTargets, work } = JSON.parse(process.argv[3]);
const threads = availableParallelism();

/** A cheap generator: weights and tokens only have to be arbitrary. */
let state = 1;
const random = () => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
};
const tokensOf = (count) => Int32Array.from({ length: count }, () => Math.floor(random() * config.vocab));

/** All matrices in this form. */
function formsOf(form) {
  const linear = ["q", "k", "v", "o", "up", "down", ...(config.mlp === "swiglu" ? ["gate"] : [])];
  const layers = Array.from({ length: config.layers }, (_, i) => linear.map((name) => `layers.${i}.${name}.weight`));
  return Object.fromEntries(["embed", ...layers.flat()].map((name) => [name, form]));
}

async function open(form = "f32", moments = "f32") {
  const forms = form === "f32" ? {} : formsOf(form);
  const model = await openModel(config, {
    ...{ threads, slots: 64, cacheBytes: 2 ** 30, forms, moments },
    // Room for a batch with its logits.
    activationBytes: 2 ** 30,
  });
  for (const { name, rows, cols } of await model.tensors()) {
    const norm = /norm\.weight$/.test(name);
    await model.setTensor(
      name,
      Float32Array.from({ length: rows * cols }, () => (norm ? 1 : (random() - 0.5) * 0.07)),
    );
  }
  return model;
}

/** Seconds of the fastest of several runs, the first of which only warms up. */
async function fastest(runs, task) {
  await task();
  let best = Infinity;
  for (let i = 0; i < runs; i++) {
    const start = performance.now();
    await task();
    best = Math.min(best, (performance.now() - start) / 1000);
  }
  return best;
}

function decode(model, batch, prompt = work.decodePrompt) {
  const sampling = { temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, maxTokens: work.decodeTokens };
  const requests = Array.from({ length: batch }, (_, seed) => ({
    ...sampling,
    tokens: tokensOf(prompt),
    stopTokens: new Int32Array(),
    seed,
  }));
  return Promise.all(requests.map((request) => model.sample(request).reply));
}

function prefill(model) {
  const sampling = { temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, maxTokens: 1, seed: 1 };
  return model.sample({ ...sampling, tokens: tokensOf(work.prefillTokens), stopTokens: new Int32Array() }).reply;
}

/** Separate sequences; every token is learnt. */
function trainBatch() {
  const { trainSequences: n, trainLength: length } = work;
  return {
    tokens: tokensOf(n * length),
    nodeStart: Int32Array.from({ length: n + 1 }, (_, i) => i * length),
    nodeParent: new Int32Array(n).fill(-1),
    wanted: new Uint8Array(n * length).fill(1),
  };
}

/** One prompt and its replies; only replies are learnt. */
function sharedBatch() {
  const { sharedPrompt: prompt, sharedReplies: n, sharedReplyLength: length } = work;
  return {
    tokens: tokensOf(prompt + n * length),
    nodeStart: Int32Array.of(0, ...Array.from({ length: n + 1 }, (_, i) => prompt + i * length)),
    nodeParent: Int32Array.of(-1, ...new Int32Array(n)),
    wanted: new Uint8Array(prompt + n * length).fill(1, prompt),
  };
}

async function trainStep(model, batch) {
  const wants = { grad: true, entropy: false, values: false, hidden: false, adapters: true };
  const options = { ...wants, recompute: false, temperature: 1, dropoutSeed: undefined };
  const { pass, logprobs } = await model.forward(batch, options);
  const derivative = logprobs.map((_, i) => (batch.wanted[i] ? -1 / logprobs.length : 0));
  await model.backward(pass, { logprobs: derivative, valuesIntoTrunk: true });
  const adam = { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0.01, clipNorm: 1, scope: "all" };
  await model.step({ learningRate: 1e-5, ...adam });
}

/** As `trainBatch`, of replies that were sampled for it. */
async function sampledBatch(model) {
  const { trainSequences: n, trainLength: length } = work;
  const prompts = Array.from({ length: n }, () => tokensOf(1));
  const sampling = { temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, maxTokens: length - 1 };
  const requests = prompts.map((tokens, seed) => ({
    ...sampling,
    ...{ tokens, seed, stopTokens: new Int32Array(), keepActivations: true },
  }));
  const replies = await Promise.all(requests.map((request) => model.sample(request).reply));
  const batch = trainBatch();
  replies.forEach((reply, i) => {
    batch.tokens.set(prompts[i], i * length);
    batch.tokens.set(reply.tokens, i * length + 1);
  });
  return batch;
}

/** Tokens a second of the training step alone, on what was just sampled. */
async function measureReused(model) {
  let best = Infinity;
  for (let round = 0; round < 4; round++) {
    const batch = await sampledBatch(model);
    const before = model.stats().reusedTokens;
    const start = performance.now();
    await trainStep(model, batch);
    // The first only warms up.
    if (round > 0) best = Math.min(best, (performance.now() - start) / 1000);
    if (model.stats().reusedTokens === before) throw new Error("Nothing of what was sampled was used again.");
  }
  return (work.trainSequences * work.trainLength) / best;
}

async function measureDecode(result, model, suffix) {
  await model.setTrainable("none");
  for (const batch of [1, 4, 16]) {
    const seconds = await fastest(3, () => decode(model, batch));
    result[`decode${batch}${suffix}`] = (batch * work.decodeTokens) / seconds;
  }
}

/** Prompts of one token: every step has one row for each reply. */
async function measureRows(result, model, suffix) {
  await model.setTrainable("none");
  for (const rows of work.rows) {
    const seconds = await fastest(3, () => decode(model, rows, 1));
    result[`rows${rows}${suffix}`] = (rows * work.decodeTokens) / seconds;
  }
}

async function measureSpeed() {
  const result = {};
  const small = parts.includes("small") || parts.includes("rows");
  for (const [suffix, form] of small ? Object.entries({ Bf16: "bf16", Int8: "q8_0" }) : []) {
    const model = await open(form);
    if (parts.includes("small")) await measureDecode(result, model, suffix);
    if (parts.includes("rows")) await measureRows(result, model, suffix);
    await model.close();
  }
  const model = await open();
  if (parts.includes("decode")) await measureDecode(result, model, "");
  if (parts.includes("rows")) await measureRows(result, model, "");
  await model.setTrainable("none");
  if (parts.includes("prefill")) result.prefill = work.prefillTokens / (await fastest(3, () => prefill(model)));
  const trained = work.trainSequences * work.trainLength;
  if (parts.includes("train")) {
    await model.setTrainable("full");
    result.trainFull = trained / (await fastest(3, () => trainStep(model, trainBatch())));
    // In tokens of the sequences written out, which is what the other side has to run.
    const written = work.sharedReplies * (work.sharedPrompt + work.sharedReplyLength);
    result.sharedPrefix = written / (await fastest(1, () => trainStep(model, sharedBatch())));
  }
  if (parts.includes("reused")) {
    await model.setTrainable("full");
    result.trainFullReused = await measureReused(model);
  }
  await model.close();
  if (parts.includes("train") || parts.includes("reused")) {
    const adapted = await open();
    await adapted.addLora({ rank: work.loraRank, alpha: 16, dropout: 0, targets: loraTargets, seed: 1 });
    await adapted.setTrainable("adapters");
    if (parts.includes("train"))
      result.trainLora = trained / (await fastest(3, () => trainStep(adapted, trainBatch())));
    if (parts.includes("reused")) result.trainLoraReused = await measureReused(adapted);
    await adapted.close();
  }
  return result;
}

/** Of sampling a batch and training on one, as a run does. */
async function measureMemory(moments) {
  const model = await open("f32", moments);
  await decode(model, 16);
  await model.setTrainable("full");
  await trainStep(model, trainBatch());
  await trainStep(model, trainBatch());
  await model.close();
  const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"));
  const bytes = peak ? Number(peak[1]) * 1024 : process.resourceUsage().maxRSS * 1024;
  return { [moments === "bf16" ? "peakMemoryBf16" : "peakMemory"]: bytes };
}

console.log(
  JSON.stringify(
    await (parts.includes("memory")
      ? measureMemory("f32")
      : parts.includes("moments")
        ? measureMemory("bf16")
        : measureSpeed()),
  ),
);
