import { z } from "zod";
import type { Agent } from "../agent/agent.ts";
import { countByPart, measuredParts } from "../conversation/part-failures.ts";
import { isReply, type Trajectory, type TrajectoryGroup } from "../conversation/trajectory.ts";
import type { Environment } from "../environment/environment.ts";
import type { Scenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import type { Harness } from "../harness/harness.ts";
import { openRollout, scenariosOf } from "../harness/open-rollout.ts";
import { parseOptions } from "../options.ts";
import { seedOf } from "../random.ts";
import type { ReferenceScorer } from "../reward/reference-scorer.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import { requireParts } from "../rollout/parts.ts";
import type { Play } from "../rollout/play.ts";
import { allFailed, emptyReport, noneCameThrough, type RolloutReport } from "../rollout/report.ts";
import { type Rollout, sampleGroups } from "../rollout/rollout.ts";
import { rolloutShape } from "../rollout/settings.ts";
import { type Estimate, estimateGroups, mean, standardDeviation } from "./estimate.ts";
import { fullContextText } from "./full-context.ts";
import { type PairedResult, pairedTest } from "./paired-test.ts";

const settingsSchema = z.strictObject({
  samples: z
    .int()
    .min(1)
    .optional()
    .describe(
      "Conversations per scenario. Left out: 4, or 1 of a model of 100M parameters and more and at temperature 0, where all would be the same.",
    ),
  seed: z.int().min(0).default(0).describe("Same seed, same conversations."),
  ...rolloutShape,
  level: z.number().gt(0).lt(1).default(0.95).describe("Of the confidence intervals."),
  signal: z.instanceof(AbortSignal).optional().describe("Stops it within a decoding step; evaluate() then rejects."),
});

export interface EvaluateOptions extends z.input<typeof settingsSchema> {
  agent: Agent;
  /** Who drives the conversations; or a harness does. */
  environment?: Environment | undefined;
  /** An agent that drives its conversations itself, in place of an environment. */
  harness?: Harness | undefined;
  /** Which of the environment's scenarios, or others that fit it. Default: all of its own. */
  scenarios?: readonly Scenario[];
  /** Left out: the environment's own rewards, added up. */
  reward?: RewardFunction | undefined;
}

export interface ScenarioScore {
  id: string;
  mean: number;
  spread: number;
  samples: number;
  /** How many of them the environment threw at. */
  failed: number;
  words: number;
}

export interface Evaluation {
  /** With its interval over scenarios. */
  reward: Estimate;
  /** Each over the conversations in which it did not fail. */
  parts: Record<string, Estimate>;
  /** Words per reply. */
  words: Estimate;
  scenarios: ScenarioScore[];
  /** Conversations in which the environment threw at a reply: they are in the numbers, with the score of `onFailure`. */
  failed: number;
  /** What each of them counts, where nothing else was said: min(0, the lowest reward). */
  failureScore: number | undefined;
  /** Conversations that came to nothing and are in no number. */
  lost: number;
  /** What the first few failures said. */
  failures: string[];
  /** In how many conversations a part of the reward failed and was skipped or stood in for, by its name. */
  partFailures: Record<string, number>;
  /** True when a stub made the replies up: the numbers say nothing about a model. */
  stub: boolean;
  groups: TrajectoryGroup[];
}

/**
 * Samples conversations and says how good they are, with intervals that take scenarios, not conversations, as independent. From fewer
 * than 5 scenarios there is none. `sampling: { temperature: 0 }` evaluates greedily.
 *
 * @example
 * const { reward } = await evaluate({ agent, environment, reward: new PolitenessReward() });
 * console.log(`${reward.mean} [${reward.low}, ${reward.high}] over ${reward.count} scenarios`);
 */
export function evaluate(options: EvaluateOptions): Promise<Evaluation> {
  return evaluateWith(options, {});
}

/** Of a larger model one takes minutes on a CPU; its interval is over scenarios either way, and only becomes wider. */
export function defaultSamples(model: { parameters: number } | undefined): number {
  return model && model.parameters >= 1e8 ? 1 : 4;
}

/** What an evaluation has of the run it is part of. */
export interface EvaluationIn extends Pick<Rollout, "onProgress"> {
  /** Kept from one evaluation to the next. */
  scorer?: ReferenceScorer | undefined;
  /** What failures count at most. */
  lowestReward?: number;
  /** Of a harness that is open already. */
  play?: Play | undefined;
  /** Given the conversations, and those that came to nothing, before anything is made of them. */
  onPlayed?: ((groups: readonly TrajectoryGroup[], lost: RolloutReport["lost"]) => void) | undefined;
}

/** The same inside a run. */
export async function evaluateWith(
  options: EvaluateOptions,
  { scorer, lowestReward, onProgress, play, onPlayed }: EvaluationIn,
): Promise<Evaluation> {
  requireParts({ ...options }, "evaluate()");
  const { agent, environment, harness, scenarios = scenariosOf(options), reward, ...rest } = options;
  const settings = parseOptions(settingsSchema, rest, "evaluate()");
  if (scenarios.length === 0) {
    throw new StatesetError("INVALID_OPTION", "evaluate() has no scenarios.", { hint: "Give at least one." });
  }
  await agent.initialize();
  const greedy = (settings.sampling.temperature ?? agent.sampling.temperature) === 0;
  const { samples = greedy ? 1 : defaultSamples(agent.policy.model) } = settings;
  const report = emptyReport(lowestReward);
  const requests = scenarios.map((scenario) => ({
    id: scenario.id,
    scenario,
    size: samples,
    // By id, not by place: a subset of the scenarios gives the same conversations.
    seed: seedOf(settings.seed, "evaluate", scenario.id),
  }));
  const parts = { agent, environment, harness, reward, settings, learn: false, scorer, onProgress };
  const { rollout, close } = await openRollout(parts, play);
  const groups = await sampleGroups(rollout, requests, { report, minimum: 1, signal: settings.signal }).finally(close);
  onPlayed?.(groups, report.lost);
  // Where it is known what a failure counts, failures alone are a measurement too.
  const known = lowestReward !== undefined || typeof settings.onFailure === "object";
  if (groups.length === 0 || (!known && noneCameThrough(report))) throw allFailed(report, "evaluate()");
  // A run tells of its own conversations.
  if (lowestReward === undefined) {
    warnOfFullContext(groups, agent.policy, settings.maxTurns);
    for (const message of report.overridden) process.emitWarning(`evaluate(): ${message}`, { type: "StatesetWarning" });
  }
  const estimate = (of: (trajectory: Trajectory) => number | undefined): Estimate =>
    estimateGroups(
      groups.map((group) => group.trajectories.map(of).filter((value) => value !== undefined)),
      { level: settings.level },
    );
  const measured = new Map(
    groups.flatMap((group) => group.trajectories.map((one) => [one, measuredParts(one.reward)] as const)),
  );
  const partNames = [...new Set([...measured.values()].flatMap(Object.keys))];
  return {
    reward: estimate((one) => one.reward.score),
    parts: Object.fromEntries(partNames.sort().map((name) => [name, estimate((one) => measured.get(one)![name])])),
    words: estimate(wordsPerReply),
    scenarios: groups.map(({ scenarioId, trajectories }) => {
      const scores = trajectories.map((one) => one.reward.score);
      return {
        id: scenarioId,
        mean: mean(scores),
        spread: standardDeviation(scores),
        samples: scores.length,
        failed: trajectories.filter(({ failure }) => failure !== undefined).length,
        words: mean(trajectories.map(wordsPerReply)),
      };
    }),
    failed: report.failed.length,
    failureScore: settings.onFailure === "lowest" ? report.lowestReward : undefined,
    lost: report.requested - report.completed,
    failures: report.failures.slice(0, 3).map(({ message }) => message),
    partFailures: countByPart(report.partFailures),
    stub: groups.some((group) => group.trajectories.some((one) => one.stub)),
    groups,
  };
}

/** Models of which it was said: once of each, however often they are measured. */
const warnedOf = new WeakSet<object>();

function warnOfFullContext(groups: readonly TrajectoryGroup[], policy: Agent["policy"], maxTurns: number): void {
  const text = warnedOf.has(policy) ? undefined : fullContextText(groups, policy, maxTurns);
  if (text === undefined) return;
  warnedOf.add(policy);
  process.emitWarning(`evaluate(): ${text}`, { type: "StatesetWarning", code: "CONTEXT_FULL" });
}

export interface Comparison {
  reward: PairedResult;
  /** Scenarios both evaluations have. */
  scenarios: { id: string; a: number; b: number }[];
}

/**
 * Which of two evaluations of the same scenarios is better, by a paired test over scenarios. A failed conversation counts the same on both
 * sides, the lowest reward of either: or the one that never did worse than its failures would be the better for them.
 */
export function compare(a: Evaluation, b: Evaluation, options: { seed?: number; level?: number } = {}): Comparison {
  const lowest = Math.min(a.failureScore ?? 0, b.failureScore ?? 0);
  const meanOf = ({ failureScore = lowest }: Evaluation, { mean, failed, samples }: ScenarioScore) =>
    mean + (failed * (lowest - failureScore)) / samples;
  const ofB = new Map(b.scenarios.map((scenario) => [scenario.id, scenario]));
  const scenarios = a.scenarios
    .filter(({ id }) => ofB.has(id))
    .map((scenario) => ({ id: scenario.id, a: meanOf(a, scenario), b: meanOf(b, ofB.get(scenario.id)!) }));
  if (scenarios.length === 0) {
    throw new StatesetError("INVALID_DATA", "The two evaluations have no scenario in common.", {
      hint: "Evaluate both on the same scenarios.",
    });
  }
  return {
    reward: pairedTest(
      scenarios.map((one) => one.a),
      scenarios.map((one) => one.b),
      options,
    ),
    scenarios,
  };
}

function wordsPerReply({ turns }: Trajectory): number {
  const replies = turns.filter(isReply);
  const words = replies.reduce((sum, { content }) => sum + (content.match(/\S+/g)?.length ?? 0), 0);
  return words / Math.max(1, replies.length);
}
