import type { Ended, RewardResult, Turn } from "../conversation/trajectory.ts";
import { describeClass, describeValue } from "../describe.ts";
import type { Scenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";

/** A finished conversation, as a reward sees it. A Trajectory with its scenario fits. */
export interface RewardInput {
  turns: readonly Turn[];
  scenario?: Scenario;
  /** Why the conversation ended. */
  ended?: Ended;
  /** The environment's final notes (`EnvironmentState.metadata`), such as `success` from a TaskEnvironment. */
  metadata?: Record<string, unknown>;
}

export interface RewardContext {
  signal?: AbortSignal;
  /**
   * Every conversation of the group, this one included, for rewards that compare (pairwise and listwise judges).
   * Every member gets the same array, so that one comparison can serve them all.
   */
  group?: readonly RewardInput[];
  /** Set in evaluations: scores of different policies are compared there, so a reward that ranks inside a group must score each by itself. */
  evaluation?: boolean;
}

export interface RewardOptions {
  /** How much it counts inside a CompositeReward. Default 1. */
  weight?: number;
  /** The key of its score in breakdowns. */
  name?: string;
}

/** Says how good a conversation was. Higher is better; built-ins stay within 0 and 1. */
export abstract class RewardFunction {
  readonly name: string;
  readonly weight: number;
  readonly #settings: Readonly<Record<string, unknown>>;

  /** `settings` is what decides its scores beside its code; config.json shows it. */
  constructor(options: RewardOptions & { name: string }, settings: Readonly<Record<string, unknown>> = {}) {
    const weight = options.weight ?? 1;
    if (!Number.isFinite(weight)) {
      throw new StatesetError("INVALID_OPTION", `The weight of reward "${options.name}" is ${weight}.`, {
        hint: "Give a finite number.",
      });
    }
    this.name = options.name;
    this.weight = weight;
    this.#settings = settings;
  }

  /** What it is, for config.json: enough to tell it from another. Override to add what a subclass keeps to itself. */
  describe(): Record<string, unknown> {
    const { name, weight } = this;
    return { name, weight, ...describeClass(this), ...(describeValue(this.#settings) as Record<string, unknown>) };
  }

  abstract compute(conversation: RewardInput, context?: RewardContext): Promise<RewardResult>;
}
