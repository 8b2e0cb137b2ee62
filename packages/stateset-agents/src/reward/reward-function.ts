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

/** How likely a reply is under the frozen reference. */
export interface TurnScore {
  /** Index in the conversation's turns. */
  turn: number;
  /** Of each of its tokens, at temperature 1. */
  logprobs: Float32Array;
}

/** Log-probs of the assistant's turns, in order; those that nobody sampled have none. */
export type ScoreTurns = (turns: readonly Turn[]) => Promise<TurnScore[]>;

export interface RewardContext {
  signal?: AbortSignal;
  /**
   * How likely replies are under the model as it was before training (without its adapter, or as it was opened). Language that the
   * model would never have used is seldom better language: with this a reward can tell that it is being gamed. Set in rollouts and
   * evaluations of a real model; it costs one pass of the model over the group, and nothing where no reward asks.
   */
  score?: ScoreTurns;
  /**
   * Waits for what is not the reward's own doing: a queue, a turn at a model that others use as well. That time does not count into
   * `timeouts.rewardMs`, nor does that of `score`. Set in rollouts and evaluations.
   */
  untimed?: <T>(wait: () => Promise<T>) => Promise<T>;
  /** Says something about the reward itself, once. Left out: as a warning of the process. */
  warn?: (message: string) => void;
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
