import type { Algorithm } from "../algorithm/algorithm.ts";
import type { Policy, Reference } from "../policy/policy.ts";
import type { LearnSettings } from "./settings.ts";

/** What learns, by which algorithm, against which reference, and how. */
export interface Learner {
  policy: Policy;
  algorithm: Algorithm;
  /** Undefined where neither the algorithm nor a KL penalty asks for one. */
  reference: Reference | undefined;
  settings: LearnSettings;
}
