import type { Agent } from "../agent/agent.ts";
import type { ConversationScenario, Scenario } from "../environment/scenario.ts";
import type { Task } from "../environment/task-environment.ts";
import { StatesetError } from "../error.ts";
import { type EvaluationIn, evaluateWith } from "../evaluation/evaluate.ts";
import { splitHeldOut } from "../evaluation/split.ts";
import type { Driver } from "../harness/open-rollout.ts";
import { seedOf } from "../random.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import type { RolloutProgress } from "../rollout/rollout.ts";
import type { RewardEvaluation } from "../run/event.ts";
import type { TrainingConfig } from "./config.ts";

/** Evaluation on scenarios that training never sees: one part selects the best checkpoint, the other is only reported. */
export interface HeldOutEvaluation {
  /** `lowestReward`: what a conversation that breaks the environment counts at most. */
  evaluate(
    step: number,
    set: RewardEvaluation["set"],
    lowestReward: number,
    signal?: AbortSignal,
  ): Promise<RewardEvaluation>;
}

export interface HeldOutOptions extends Pick<EvaluationIn, "scorer" | "onProgress" | "play">, Driver {
  agent: Agent;
  scenarios: readonly Scenario[];
  reward: RewardFunction | undefined;
  config: TrainingConfig;
  /** Writes the conversations down. */
  record?: ((of: { step: number; set: RewardEvaluation["set"] }, ...played: Parameters<OnPlayed>) => void) | undefined;
}

type OnPlayed = NonNullable<EvaluationIn["onPlayed"]>;

/** What makes held-out numbers say less than they seem to, in words. */
export function heldOutProblems(training: readonly Scenario[], heldOut: readonly Scenario[]): string[] {
  const asked = new Set(heldOut.map(textOf));
  // Not the texts of all training scenarios at once: they may be a hundred thousand.
  const trained = new Set<string>();
  for (const scenario of training) {
    const text = textOf(scenario);
    if (asked.has(text)) trained.add(text);
  }
  const seen = heldOut.filter((scenario) => trained.has(textOf(scenario))).map(({ id }) => id);
  const problems: string[] = [];
  if (seen.length > 0) {
    const named = `${seen.slice(0, 3).join(", ")}${seen.length > 3 ? ", …" : ""}`;
    problems.push(
      `${seen.length} of ${heldOut.length} held-out scenarios have the text of one that is trained on (${named}): their rewards say how well it was learnt by heart.`,
    );
  }
  if (heldOut.length === 1) {
    problems.push(
      "One held-out scenario both selects the best checkpoint and is reported: the reward after training is the best of many looks at it. Give at least 10, of which half select.",
    );
  }
  return problems;
}

/** What the agent gets to read, whatever the scenario is called. */
function textOf(scenario: Scenario): string {
  const { messages, userResponses, prompt, goal, context, systemPrompt } = scenario as Partial<
    ConversationScenario & Task
  >;
  const begun = messages && [...messages, ...(userResponses ?? [])];
  const said = begun ?? userResponses ?? prompt ?? goal ?? JSON.stringify({ ...scenario, id: "" });
  return JSON.stringify([said, context, systemPrompt]).toLowerCase().replace(/\s+/g, " ");
}

/**
 * The same scenarios are sampled with the same seeds every time, so that evaluations differ by the policy alone.
 * With a single scenario both parts are that one.
 */
export function createHeldOut({
  scenarios,
  config,
  scorer,
  onProgress,
  play,
  record,
  ...parts
}: HeldOutOptions): HeldOutEvaluation {
  if (scenarios.length === 0) {
    throw new StatesetError("INVALID_OPTION", "The evaluation has no scenarios.", {
      hint: "Give at least one held-out scenario, or leave the evaluation out.",
    });
  }
  const { seed, evaluation, maxTurns, concurrency, timeouts, onFailure } = config;
  const { temperature = config.sampling.temperature } = evaluation;
  const sampling = { ...config.sampling, ...(temperature !== undefined && { temperature }) };
  const samples = temperature === 0 ? 1 : evaluation.samples;
  const sets =
    scenarios.length === 1
      ? { selection: scenarios, report: scenarios }
      : splitHeldOut(scenarios, { seed: seedOf(seed, "held-out"), selectionShare: evaluation.selectionShare });
  const underWay = new Map<RewardEvaluation["set"], RolloutProgress>();
  let active = 0;
  /** Of all sets that are measured at this time. */
  const tell = (set: RewardEvaluation["set"], progress: RolloutProgress) => {
    underWay.set(set, progress);
    const all = [...underWay.values()];
    const sum = (of: (one: RolloutProgress) => number) => all.reduce((total, one) => total + of(one), 0);
    // Those of a set that is being rewarded have all been held.
    const phase = all.some((one) => one.phase === "sampling") ? "sampling" : "rewarding";
    const done = sum((one) => (one.phase === phase ? one.done : one.of));
    onProgress?.({ phase, done, of: sum((one) => one.of), tokens: sum((one) => one.tokens) });
  };
  return {
    async evaluate(step, set, lowestReward, signal) {
      active++;
      const rollout = { sampling, maxTurns, concurrency, timeouts, onFailure };
      const settings = { ...rollout, samples, seed: seedOf(seed, "evaluation"), signal };
      const onPlayed: OnPlayed = (...played) => record?.({ step, set }, ...played);
      try {
        const result = await evaluateWith(
          { ...parts, ...settings, scenarios: sets[set] },
          { scorer, lowestReward, play, onPlayed, onProgress: (progress) => tell(set, progress) },
        );
        const means = Object.entries(result.parts).map(([name, estimate]) => [name, estimate.mean]);
        return {
          step,
          set,
          reward: result.reward,
          parts: Object.fromEntries(means),
          scenarios: result.scenarios,
          failed: result.failed,
          lost: result.lost,
          failures: result.failures,
          partFailures: result.partFailures,
        };
      } catch (error) {
        // An evaluation in which everything failed says nothing, but it must not end the run.
        if (
          !StatesetError.isInstance(error) ||
          !["ENVIRONMENT_FAILED", "HOOK_FAILED", "REWARD_FAILED"].includes(error.code)
        )
          throw error;
        const none = { mean: Number.NaN, count: 0 };
        const lost = sets[set].length * samples;
        return { step, set, reward: none, parts: {}, scenarios: [], failed: 0, lost, failures: [error.message] };
      } finally {
        if (--active === 0) underWay.clear();
      }
    },
  };
}
