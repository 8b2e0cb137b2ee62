import type { ToolDefinition } from "../conversation/tool-definition.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { describeClass, describeList } from "../describe.ts";
import type { Scenario } from "./scenario.ts";

/** Everything an episode is, as plain data: environments keep nothing between calls, so episodes can run side by side. */
export interface EnvironmentState<S extends Scenario = Scenario> {
  scenario: S;
  /** The conversation so far, without the system prompt. After reset() it holds the first user turn. */
  turns: readonly Turn[];
  /** How many replies the agent has given. */
  replies: number;
  /** What is random in the episode comes from this. */
  seed: number;
  done: boolean;
  /** Set with `done`: whether the episode came to its end or ran out of turns. */
  ended?: "done" | "max-turns";
  /** The environment's own notes; rewards see the final ones. Plain data. */
  metadata: Record<string, unknown>;
}

/** What step() returns. */
export interface StepResult<S extends Scenario = Scenario> {
  /** The new state; its turns hold the agent's reply and, when there is one, `userTurn`. */
  state: EnvironmentState<S>;
  /** What the agent has to answer next. Absent when done. */
  userTurn?: Turn;
  /** The environment's own reward for this reply, where it gives one. */
  reward?: number;
  done: boolean;
  info?: Record<string, unknown>;
}

export interface ResetOptions {
  seed?: number;
  signal?: AbortSignal;
}

export interface StepOptions {
  /** Fires when the run stops or the step took too long. */
  signal?: AbortSignal;
}

/**
 * The world an agent talks to. Subclasses implement `scenarios`, `reset` and `step`.
 * All state goes through EnvironmentState; methods must not change the state they are given.
 */
export abstract class Environment<S extends Scenario = Scenario> {
  /** What the trainer iterates over: a group of conversations is sampled from one of these. */
  abstract readonly scenarios: readonly S[];

  /** Starts an episode. Without a scenario, one is chosen by the seed. */
  abstract reset(scenario?: S, options?: ResetOptions): Promise<EnvironmentState<S>>;

  /** Takes the agent's reply and says what happens next. */
  abstract step(state: EnvironmentState<S>, action: Turn, options?: StepOptions): Promise<StepResult<S>>;

  /**
   * Tools that the environment runs: the agent is shown them, and a reply that calls one comes to step(), which answers with a `tool` turn for
   * each call. Asked once an episode, after reset().
   */
  tools(_state: EnvironmentState<S>): readonly ToolDefinition[] | undefined {
    return undefined;
  }

  /** The environment that a retry uses after a failure. Override when instances hold resources that may be broken. */
  fresh(): Environment<S> | Promise<Environment<S>> {
    return this;
  }

  /** What it is, for config.json: enough to tell it from another. Override to add what a subclass keeps to itself. */
  describe(): Record<string, unknown> {
    return { ...describeClass(this), scenarios: describeList(this.scenarios) };
  }

  /** Frees what the environment holds. */
  async close(): Promise<void> {}
}
