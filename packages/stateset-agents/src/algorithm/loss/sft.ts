/** SFT: −Σ logp over assistant tokens / N, N = such tokens in the whole optimiser batch. Left out: label smoothing. */
import type { LossResult, MetricSums } from "../algorithm.ts";
import { addMetric } from "../metrics.ts";

export function sftLoss(
  micro: readonly { logprobs: Float32Array }[],
  counts: { tokens: number },
): Pick<LossResult, "loss" | "dLogprobs" | "metrics"> {
  const metrics: MetricSums = {};
  let nll = 0;
  let tokens = 0;
  for (const { logprobs } of micro) {
    for (const logp of logprobs) nll -= logp;
    tokens += logprobs.length;
  }
  addMetric(metrics, "nll", nll, tokens);
  return {
    loss: nll / counts.tokens,
    dLogprobs: micro.map(({ logprobs }) => new Float32Array(logprobs.length).fill(-1 / counts.tokens)),
    metrics,
  };
}
