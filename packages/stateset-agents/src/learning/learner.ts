import type { Algorithm } from "../algorithm/algorithm.ts";
import type { Policy, Reference } from "../policy/policy.ts";
import type { LearnSettings } from "./settings.ts";
import { requireShaping } from "./shape-rewards.ts";
import { requireLoraPlus, requireTrainable } from "./trainable.ts";

/** What learns, by which algorithm, against which reference, and how. */
export interface Learner {
  policy: Policy;
  algorithm: Algorithm;
  /** Undefined where neither the algorithm nor a KL penalty asks for one. */
  reference: Reference | undefined;
  settings: LearnSettings;
  /** Told how far an update is, in conversations. */
  onPass?: (progress: { done: number; of: number }) => void;
}

/** Gives the policy what the algorithm needs of it. A stub's run goes through the motions and learns nothing. */
export async function openLearner(learner: Learner): Promise<Learner> {
  const { policy, algorithm, settings } = learner;
  if (policy.model.stub) return learner;
  requireTrainable(policy);
  const noRate = algorithm.trustRegion && `${algorithm.name} has no learning rate`;
  requireShaping(learner);
  requireLoraPlus(policy, settings.loraPlusRatio, noRate);
  if (algorithm.needs.values) await policy.addValueHead();
  return learner;
}

/** Whether anything in the loss is measured against a reference. */
export function wantsReference(algorithm: Algorithm, klCoefficient: number): boolean {
  return algorithm.needs.reference === true || klCoefficient > 0;
}

/** Steps in which only the value head learns, in a run of so many. */
export function warmupSteps({ valueWarmupSteps = 0 }: Algorithm, steps: number): number {
  return typeof valueWarmupSteps === "number" ? valueWarmupSteps : valueWarmupSteps(steps);
}
