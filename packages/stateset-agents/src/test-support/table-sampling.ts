/** How the table policy draws a token: written out plainly, to compare engines with. */
import { isShaped, type Sampling } from "../policy/policy.ts";

export interface Drawn {
  token: number;
  /** Under the distribution that was drawn from. */
  samplerLogprob: number;
}

/** `row` are log-probs at the sampling temperature, `seen` counts the tokens of prompt and reply, `said` those of the reply. */
export function draw(
  row: Float64Array,
  sampling: Sampling,
  {
    uniform,
    prompt,
    said,
    ends,
  }: { uniform: number; prompt: Int32Array; said: readonly number[]; ends: ReadonlySet<number> },
): Drawn {
  if (!isShaped(sampling)) {
    const token = sampling.temperature === 0 ? argmax(row) : choose(row, uniform);
    return { token, samplerLogprob: sampling.temperature === 0 ? 0 : row[token]! };
  }
  const shaped = shape(row, sampling, prompt, said, ends);
  if (sampling.temperature === 0) return { token: argmax(shaped), samplerLogprob: 0 };
  const kept = truncate(normalised(shaped), sampling);
  const token = choose(kept, uniform);
  return { token, samplerLogprob: kept[token]! };
}

function shape(
  row: Float64Array,
  sampling: Sampling,
  prompt: Int32Array,
  said: readonly number[],
  ends: ReadonlySet<number>,
): Float64Array {
  const { repetitionPenalty, presencePenalty = 0, frequencyPenalty = 0, logitBias = {}, minTokens = 0 } = sampling;
  const temperature = sampling.temperature || 1;
  const shaped = Float64Array.from(row, (logp) => logp * temperature);
  for (const token of new Set([...prompt, ...said])) {
    const logit = shaped[token]!;
    shaped[token] = logit < 0 ? logit * repetitionPenalty : logit / repetitionPenalty;
  }
  for (const token of said) shaped[token]! -= frequencyPenalty;
  for (const token of new Set(said)) shaped[token]! -= presencePenalty;
  for (const [token, added] of Object.entries(logitBias)) shaped[Number(token)]! += added;
  if (said.length < minTokens) for (const token of ends) shaped[token] = Number.NEGATIVE_INFINITY;
  return shaped.map((logit) => logit / temperature);
}

/** Top-k, then top-p, then min-p, each on what the one before left; renormalised. */
function truncate(row: Float64Array, { topK, topP, minP }: Sampling): Float64Array {
  const order = [...row.keys()].sort((a, b) => row[b]! - row[a]! || a - b);
  let kept = topK > 0 ? order.slice(0, topK) : order;
  const mass = kept.reduce((sum, id) => sum + Math.exp(row[id]!), 0);
  let sum = 0;
  if (topP < 1)
    kept = kept.filter((id) => {
      const before = sum;
      sum += Math.exp(row[id]!) / mass;
      return before < topP;
    });
  kept = kept.filter((id) => Math.exp(row[id]! - row[order[0]!]!) >= minP);
  const left = new Float64Array(row.length).fill(Number.NEGATIVE_INFINITY);
  for (const id of kept) left[id] = row[id]!;
  return kept.length === row.length ? row : normalised(left);
}

function normalised(row: Float64Array): Float64Array {
  const max = row.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const log = max + Math.log(row.reduce((sum, x) => sum + Math.exp(x - max), 0));
  return row.map((x) => x - log);
}

function choose(row: Float64Array, uniform: number): number {
  let sum = 0;
  for (let id = 0; id < row.length; id++) {
    sum += Math.exp(row[id]!);
    if (uniform < sum) return id;
  }
  return argmax(row);
}

function argmax(row: Float64Array): number {
  return row.reduce((best, x, id) => (x > row[best]! ? id : best), 0);
}
