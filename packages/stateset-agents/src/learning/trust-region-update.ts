import type { LossFunction, TrustRegion } from "../algorithm/algorithm.ts";
import { addMetric } from "../algorithm/metrics.ts";
import { finiteDifferenceFisher, trustRegionStep } from "../algorithm/trust-region.ts";
import type { ParameterVector } from "../policy/policy.ts";
import type { Learner } from "./learner.ts";
import type { Regularisers } from "./regularise.ts";
import { objective } from "./token-choice.ts";
import { accumulate, type Batch, measure, type UpdateResult } from "./update.ts";

/**
 * TRPO's update on the policy's trainable parameters: gradients and Fisher products come from the engine, the step from algorithm/trust-region.ts.
 * `stepScale` shortens the step: its length goes with √δ, so δ is scaled by the square.
 */
export async function trustRegionUpdate(
  learner: Learner,
  batch: Batch,
  region: TrustRegion,
  regularisers: Regularisers,
  stepScale: number,
): Promise<UpdateResult> {
  const { policy } = learner;
  // Of the products with the Fisher matrix and the steps that are taken back, nothing is kept.
  const apart: Batch = { ...batch, learnt: undefined };
  const loss = objective(learner, regularisers);
  const kl: LossFunction = (micro, counts) => region.kl(micro, counts);
  const gradientOf = async (of: LossFunction) => {
    await policy.zeroGradients();
    const report = await accumulate(learner, of === loss ? batch : apart, of);
    const vector = await policy.vector("gradients");
    await policy.zeroGradients();
    return { report, vector };
  };
  const { report, vector: gradient } = await gradientOf(loss);
  const gradNorm = Math.sqrt(await gradient.dot(gradient));
  if (report.skipped !== undefined || !Number.isFinite(gradNorm)) {
    gradient.release();
    return { ...report, gradNorm, skipped: report.skipped ?? "the gradient" };
  }
  const old = await policy.vector("parameters");
  const moveTo = async (offset?: ParameterVector) => {
    const target = await old.copy();
    if (offset) await target.add(offset);
    await policy.moveTo(target);
    target.release();
  };
  const fisher = finiteDifferenceFisher(moveTo, async () => (await gradientOf(kl)).vector);
  let tried: Batch["learnt"];
  const problem = {
    gradient,
    fisherVectorProduct: fisher.product,
    moveTo,
    async evaluate() {
      tried = batch.learnt?.apart();
      const [lossNow, klNow] = await measure(learner, { ...batch, learnt: tried }, [loss, kl]);
      return { loss: lossNow!, kl: klNow! };
    },
  };
  const bound = { ...region, maxKl: region.maxKl * stepScale ** 2 };
  const result = await trustRegionStep(problem, bound).finally(() => {
    for (const vector of [gradient, old, fisher]) vector.release();
  });
  if (result.accepted && tried) batch.learnt?.take(tried);
  const { metrics, ratioMax } = report;
  addMetric(metrics, "trustRegionKl", result.kl);
  addMetric(metrics, "trustRegionAccepted", result.accepted ? 1 : 0);
  addMetric(metrics, "trustRegionBacktracks", result.backtracks);
  addMetric(metrics, "stepNorm", result.stepNorm);
  return { loss: result.loss, gradNorm, skipped: undefined, ratioMax, metrics };
}
