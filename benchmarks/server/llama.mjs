// llama.cpp as node-llama-cpp carries it, in a process of its own: `llama.mjs <request as JSON>` prints one JSON object on its last line.
// {package, gguf, threads, streams, maxTokens, prompts, rounds}: so many sequences of one context, which it decodes together. No server
// stands before it: its tokens go nowhere.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const request = JSON.parse(process.argv[2]);
const { gguf, threads, streams, maxTokens, prompts, rounds } = request;
const found = createRequire(join(request.package, "package.json")).resolve("node-llama-cpp");
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(found).href);
const llama = await getLlama({ gpu: false, build: "never", maxThreads: threads, logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath: gguf });
const longest = Math.max(...prompts.map((prompt) => prompt.length));
const context = await model.createContext({
  ...{ sequences: streams, contextSize: longest + maxTokens + 8, batchSize: 512, threads, flashAttention: false },
});
const sequences = Array.from({ length: streams }, () => context.getSequence());

async function round(which) {
  const counts = await Promise.all(
    sequences.map(async (sequence, i) => {
      await sequence.clearHistory();
      let count = 0;
      const options = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: which * streams + i, yieldEogToken: true };
      for await (const _ of sequence.evaluate(prompts[(which * streams + i) % prompts.length], options)) {
        if (++count === maxTokens) break;
      }
      return count;
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

await round(rounds);
const began = performance.now();
let tokens = 0;
for (let which = 0; which < rounds; which++) tokens += await round(which);
console.log(JSON.stringify({ tokens, ms: performance.now() - began }));
await llama.dispose();
process.exit(0);
