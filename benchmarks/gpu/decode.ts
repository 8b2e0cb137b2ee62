/** How fast replies are sampled, and how far their log-probs are from those that training sees. */
import { performance } from "node:perf_hooks";
import { buildTokenTree } from "../../packages/stateset-agents/src/conversation/token-tree.ts";
import { defaultSampling, type Policy, type Sample } from "../../packages/stateset-agents/src/policy/policy.ts";
import { createRandom } from "../../packages/stateset-agents/src/random.ts";

/** Tokens a second of `batch` replies to prompts of their own: of decoding alone, and with the prompts. */
export async function decodeSpeed(policy: Policy, batch: number, { prompt = 512, reply = 256, warmUp = 13 } = {}) {
  let round = 0;
  const seconds = async (maxTokens: number) => {
    const random = createRandom(++round);
    const requests = Array.from({ length: batch }, (_, seed) => ({
      // Below the control tokens' ids of most vocabularies; no prompt was seen before.
      tokens: Int32Array.from({ length: prompt }, () => 300 + random.below(3000)),
      sampling: { ...defaultSampling, maxTokens },
      seed,
    }));
    const start = performance.now();
    const samples = await policy.sample(requests);
    const tokens = samples.reduce((sum, sample) => sum + sample.tokens.length, 0);
    return { seconds: (performance.now() - start) / 1000, tokens };
  };
  // In the first ones graphs are captured, and after 3,000 steps blocks are compiled. As long as what is measured: for a longer reply
  // the cache may be made anew, and everything captured again.
  for (let warm = 0; warm < warmUp; warm++) await seconds(reply + 1);
  await seconds(1);
  const [whole, prompts] = [await seconds(reply + 1), await seconds(1)];
  const decoded = whole.tokens - prompts.tokens;
  return { decode: decoded / (whole.seconds - prompts.seconds), whole: whole.tokens / whole.seconds };
}

/** |log-prob when sampled − log-prob when scored|: its mean, and the share of tokens whose ratio leaves 0.9 … 1.1. */
export async function mismatch(policy: Policy, questions: readonly string[]) {
  const requests = questions.flatMap((content, q) => {
    const messages = [{ role: "user" as const, content }];
    const { tokens } = policy.tokenizer.extend(undefined, messages, { addGenerationPrompt: true });
    const sampling = { ...defaultSampling, maxTokens: 64 };
    return Array.from({ length: 16 }, (_, i) => ({ tokens, sampling, seed: 100 * q + i }));
  });
  const samples: Sample[] = await policy.sample(requests);
  let [sum, outside, count] = [0, 0, 0];
  for (const [i, { tokens, logprobs }] of samples.entries()) {
    const all = Int32Array.from([...requests[i]!.tokens, ...tokens]);
    const from = requests[i]!.tokens.length;
    const learn = Uint8Array.from(all, (_, t) => (t >= from ? 1 : 0));
    const { tree } = buildTokenTree([{ tokens: all, learn }]);
    const scored = (await policy.forward(tree, { grad: false })).logprobs.subarray(from);
    for (const [t, logprob] of logprobs.entries()) {
      const off = Math.abs(scored[t]! - logprob);
      sum += off;
      outside += Math.exp(off) > 1.1 ? 1 : 0;
      count++;
    }
  }
  return { mean: sum / count, outside: outside / count, tokens: count };
}
