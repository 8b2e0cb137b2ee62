/**
 * What the policy can do before it learns: a few conversations of each scenario, for recall to go back to.
 *
 * The first updates already move a policy far. What they lose before its scenario is drawn for the first time would never have
 * succeeded, and nothing could be recalled. Nothing is learnt from these conversations, and they are in no metric.
 */
import { seedOf } from "../random.ts";
import { emptyReport } from "../rollout/report.ts";
import { sampleGroups } from "../rollout/rollout.ts";
import type { TrainingConfig } from "./config.ts";
import type { Loop } from "./loop.ts";

/** Conversations of each scenario. */
const size = 4;

/** How many conversations a run of so many scenarios begins with. 0 where they would be a tenth of its conversations or more. */
export function firstLookConversations(
  { steps, groupsPerStep, accumulation, groupSize }: TrainingConfig,
  scenarios: number,
): number {
  const looking = size * scenarios;
  return looking < 0.1 * steps * groupsPerStep * accumulation * groupSize ? looking : 0;
}

export async function firstLook({ config, recall, scenarios: { scenarios }, rollout, run }: Loop): Promise<void> {
  // A run that goes on has its memory in the checkpoint.
  if (!recall || run.step > 0 || firstLookConversations(config, scenarios.length) === 0) return;
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
