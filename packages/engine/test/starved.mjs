// `node --expose-gc starved.mjs <call>` makes one call again and again in a process that may take ever more memory beside what it has, until the
// call succeeds, and prints what the errors before that were, as JSON. After each error a small request must give what it gave before.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { openModel } from "../dist/index.mjs";

const MIB = 2 ** 20;
const shape = {
  ...{ vocab: 64, hidden: 64, layers: 1, heads: 1, kvHeads: 1, headDim: 16, inter: 16, maxPositions: 4096 },
  ...{ norm: "rms", normEps: 1e-5, mlp: "swiglu", position: "rope", ropeTheta: 10_000, ropeScaling: undefined },
  ...{ tied: true, qkvBias: false, outBias: false, mlpBias: false, qkNorm: false, slidingWindow: 16 },
};
const tokens = (count) => Int32Array.from({ length: count }, (_, i) => (11 * i + 5) % 64);
const sampling = { temperature: 0, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, maxTokens: 2, seed: 1 };
const plain = { grad: false, entropy: false, values: false, hidden: false, adapters: true, recompute: false };

function sample(model, count) {
  return model.sample({ ...sampling, tokens: tokens(count), stopTokens: new Int32Array() }).reply;
}

function forward(model, count, wants = {}) {
  const nodes = { nodeStart: Int32Array.of(0, count), nodeParent: Int32Array.of(-1) };
  const batch = { tokens: tokens(count), ...nodes, wanted: new Uint8Array(count).fill(1, count - 1) };
  return model.forward(batch, { ...plain, temperature: 1, dropoutSeed: undefined, ...wants });
}

/** Each wants pieces of 16 MiB. */
const calls = {
  readFlat: { changes: { vocab: 65_536 }, call: (model) => model.readFlat("parameters") },
  writeFlat: { changes: { vocab: 65_536 }, call: (model, zeros) => model.writeFlat(zeros) },
  hidden: {
    changes: { hidden: 1024 },
    call: async (model) => model.release((await forward(model, 4096, { hidden: true, grad: true })).pass),
  },
  positions: { changes: { headDim: 4096 }, call: (model) => sample(model, 2048) },
};

async function open(changes) {
  const model = await openModel({ ...shape, ...changes }, { threads: 1, slots: 1, cacheBytes: 256 * MIB });
  let count = 0;
  for (const { name, rows, cols } of await model.tensors()) {
    const data = new Float32Array(rows * cols);
    await model.setTensor(
      name,
      data.map((_, i) => (name.endsWith("norm.weight") ? 1 : Math.sin(i))),
    );
    count += data.length;
  }
  await model.setTrainable("full");
  return { model, zeros: new Float32Array(count) };
}

async function small(model) {
  const { logprobs } = await forward(model, 20);
  return JSON.stringify([[...logprobs], [...(await sample(model, 9)).tokens]]);
}

function limit(bytes) {
  execFileSync("prlimit", ["--pid", String(process.pid), `--as=${bytes}:`]);
}

function takenNow() {
  // Of what the first finds, some is given back when the second begins.
  gc();
  gc();
  return 1024 * Number(/VmSize:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
}

const { changes, call } = calls[process.argv[2]];
const { model, zeros } = await open(changes);
// Somebody holds the weights, so that changing them takes a copy.
const held = await model.retain();
const before = await small(model);
const errors = new Set();
const taken = takenNow();
for (let room = 8; ; room += 8) {
  limit(taken + room * MIB);
  const error = await call(model, zeros).then(
    () => undefined,
    (thrown) => thrown,
  );
  limit("unlimited");
  if (!error) break;
  errors.add(`${error.code} for ${/ for (.*?)\. /.exec(error.message)?.[1]}`);
  if ((await small(model)) !== before) throw new Error(`It is not the same model after: ${error.message}`);
}
const { passes } = await model.memory();
await held.close();
await model.close();
console.log(JSON.stringify({ errors: [...errors], passes }));
