/**
 * What the policy can do before it learns: a few conversations of each scenario, for recall to go back to.
 *
 * The first updates already move a policy far. What they lose before its scenario is drawn for the first time would never have
 * succeeded, and nothing could be recalled. Nothing is learnt from these conversations, and they are in no metric.
 */
import { defaultSamples } from "../evaluation/evaluate.ts";
import type { ModelInfo } from "../policy/policy.ts";
import { seedOf } from "../random.ts";
import { emptyReport } from "../rollout/report.ts";
import { sampleGroups } from "../rollout/rollout.ts";
import type { TrainingConfig } from "./config.ts";
import type { Loop } from "./loop.ts";

/** How many conversations of each scenario a run of so many begins with. 0 where they would be a tenth of its conversations or more. */
export function firstLookSize(
  { steps, groupsPerStep, accumulation, groupSize }: TrainingConfig,
  scenarios: number,
  model: Pick<ModelInfo, "parameters">,
): number {
  const size = defaultSamples(model);
  return size * scenarios < 0.1 * steps * groupsPerStep * accumulation * groupSize ? size : 0;
}

export async function firstLook({
  config,
  recall,
  scenarios: { scenarios },
  rollout,
  run,
  learner,
}: Loop): Promise<void> {
  // A run that goes on has its memory in the checkpoint.
  if (!recall || run.step > 0) return;
  const size = firstLookSize(config, scenarios.length, learner.policy.model);
  if (size === 0) return;
  const requests = scenarios.map((scenario, index) => ({
    id: `look-${index}`,
    scenario,
    size,
    seed: seedOf(config.seed, "first-look", index),
  }));
  // What fails here fails in the first step as well, which says so.
  const options = { report: emptyReport(), minimum: 1, signal: run.signal };
  recall.note(await sampleGroups(rollout, requests, options));
}
