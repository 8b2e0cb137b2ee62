import type { LossFunction, TrustRegion } from "../algorithm/algorithm.ts";
import { addMetric } from "../algorithm/metrics.ts";
import { finiteDifferenceFisher, offsetMover, trustRegionStep } from "../algorithm/trust-region.ts";
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
    const vector = await policy.readVector("gradients");
    await policy.zeroGradients();
    return { report, vector };
  };
  const { report, vector: gradient } = await gradientOf(loss);
  if (report.skipped !== undefined) return { ...report, gradNorm: Number.NaN };
  const gradNorm = Math.sqrt(gradient.reduce((sum, g) => sum + g * g, 0));
  if (!Number.isFinite(gradNorm)) return { ...report, gradNorm, skipped: "the gradient" };
  const moveTo = await offsetMover({
    read: () => policy.readVector("parameters"),
    add: (delta) => policy.addVector(delta),
  });
  let tried: Batch["learnt"];
  const result = await trustRegionStep(
    {
      gradient,
      fisherVectorProduct: finiteDifferenceFisher(moveTo, async () => (await gradientOf(kl)).vector),
      moveTo,
      async evaluate() {
        tried = batch.learnt?.apart();
        const [lossNow, klNow] = await measure(learner, { ...batch, learnt: tried }, [loss, kl]);
        return { loss: lossNow!, kl: klNow! };
      },
    },
    { ...region, maxKl: region.maxKl * stepScale ** 2 },
  );
  if (result.accepted && tried) batch.learnt?.take(tried);
  const { metrics, ratioMax } = report;
  addMetric(metrics, "trustRegionKl", result.kl);
  addMetric(metrics, "trustRegionAccepted", result.accepted ? 1 : 0);
  addMetric(metrics, "trustRegionBacktracks", result.backtracks);
  addMetric(metrics, "stepNorm", result.stepNorm);
  return { loss: result.loss, gradNorm, skipped: undefined, ratioMax, metrics };
}
