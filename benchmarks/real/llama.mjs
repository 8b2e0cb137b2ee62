// llama.cpp's side, through node-llama-cpp: `llama.mjs <mode> <request file>` prints one JSON object on its last line.
//   score  {model, sequences: [ids]}: {logprobs: [[of every token but the first]]}
//   decode {model, batch, prompt, tokens, threads, runs}: {perSecond}
// node-llama-cpp is looked for from the folder it is started in: it is no dependency of this repository.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.cwd(), "package.json"));
const { getLlama } = await import(pathToFileURL(require.resolve("node-llama-cpp")).href);
const [mode, file] = process.argv.slice(2);
const request = JSON.parse(readFileSync(file, "utf8"));
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: request.threads });
const model = await llama.loadModel({ modelPath: request.model, gpuLayers: 0 });

async function score() {
  const longest = Math.max(...request.sequences.map((ids) => ids.length));
  const context = await model.createContext({ contextSize: longest + 8, threads: request.threads });
  const logprobs = [];
  for (const ids of request.sequences) {
    const sequence = context.getSequence();
    const asked = ids.slice(0, -1).map((id) => [id, { generateNext: { probabilities: true } }]);
    const answers = await sequence.controlledEvaluate(asked);
    logprobs.push(answers.map(({ next }, i) => Math.log(next.probabilities.get(ids[i + 1]))));
    await sequence.clearHistory();
    sequence.dispose();
  }
  return { logprobs };
}

async function decode() {
  const { batch, prompt, tokens, threads, runs } = request;
  const contextSize = prompt + tokens + 8;
  const context = await model.createContext({ sequences: batch, contextSize, threads, batchSize: batch * prompt });
  // Kept: a sequence is given back only some time after it was let go.
  const sequences = Array.from({ length: batch }, () => context.getSequence());
  const once = async (count) => {
    const started = performance.now();
    await Promise.all(
      sequences.map(async (sequence, i) => {
        await sequence.clearHistory();
        const ids = Array.from({ length: prompt }, (_, j) => 100 + ((7919 * (i * prompt + j)) % 19_000));
        let left = count;
        // Greedy: drawing from all tokens would be a good part of the time here, and it is not what is compared.
        for await (const _ of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true })) {
          if (--left === 0) break;
        }
      }),
    );
    return (performance.now() - started) / 1000;
  };
  await once(4);
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < runs; i++) best = Math.min(best, await once(tokens));
  return { perSecond: (batch * tokens) / best };
}

const result = await { score, decode }[mode]();
await new Promise((written) => process.stdout.write(`\n${JSON.stringify(result)}\n`, written));
process.exit(0);
