// llama.cpp's scores, through node-llama-cpp: `llama.mjs <request file>` prints one JSON object on its last line.
//   {model, sequences: [ids]}: {logprobs: [[of every token but the first]]}
// node-llama-cpp is looked for from the folder it is started in: it is no dependency of this repository.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.cwd(), "package.json"));
const { getLlama } = await import(pathToFileURL(require.resolve("node-llama-cpp")).href);
const request = JSON.parse(readFileSync(process.argv[2], "utf8"));
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });
const model = await llama.loadModel({ modelPath: request.model, gpuLayers: 0 });

async function score() {
  const longest = Math.max(...request.sequences.map((ids) => ids.length));
  const context = await model.createContext({ contextSize: longest + 8 });
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

const result = await score();
await new Promise((written) => process.stdout.write(`\n${JSON.stringify(result)}\n`, written));
process.exit(0);
