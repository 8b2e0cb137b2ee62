import { z } from "zod";
import { type AlgorithmChoice, chosenAlgorithm, splitChoice } from "../algorithm/algorithm-choice.ts";
import { longestReply } from "../algorithm/overlong.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import type { Policy, Reference } from "../policy/policy.ts";
import { checkGroups } from "./check-groups.ts";
import { exclusively } from "./exclusive.ts";
import { notFiniteError, type SkippedUpdates, tooManySkipped } from "./finite.ts";
import { learn } from "./learn.ts";
import { openLearner, wantsReference } from "./learner.ts";
import type { LearningMetrics } from "./metric-table.ts";
import { defaultTokenBudget, learningRateFor } from "./optimiser.ts";
import { sequencesOf } from "./sequence.ts";
import { klShape, learnShape } from "./settings.ts";
import { requireTrainable } from "./trainable.ts";

const schema = z.strictObject({
  ...learnShape,
  kl: z.strictObject(klShape).prefault({}),
  step: z
    .int()
    .min(1)
    .default(1)
    .describe("Which step this is: a value head's warm-up and the dealing of minibatches go by it."),
  steps: z.int().min(1).optional().describe("Of how many: a value head's warm-up may be a share of them (VAPO)."),
  replyTokens: z.int().min(1).optional().describe("The limit a reply had, for overlong shaping."),
  maxTokens: z
    .int()
    .min(1)
    .optional()
    .describe("Tokens a conversation could have, for losses that divide by it (Dr. GRPO)."),
  reference: z.custom<Reference>((value) => typeof (value as Reference | null)?.logprobs === "function").optional(),
});

/** `reference` is what a KL term measures against: make it before the first step, `await policy.reference("present")`. */
export type LearnFromOptions = z.input<typeof schema> & AlgorithmChoice;

export interface LearnFromResult {
  /** loss, gradNorm, kl, clipFraction, …: the names of metrics.jsonl. */
  metrics: LearningMetrics;
  /** Optimiser steps made. */
  updates: number;
  /** One a step that was not made: what was not finite ("the loss", "the gradient"). */
  skipped: string[];
}

/**
 * One step of reinforcement learning from conversations that were sampled elsewhere or earlier: recorded rollouts, a harness of your
 * own, groups read back from a file. train() does this with the groups it samples; the same groups give the same weights.
 * Where the tokens were sampled by other weights than the policy's, choose an algorithm with a clip, or `correction`.
 *
 * @example
 * const { groups } = await harvestBestOfN({ agent, environment, reward, n: 8 });
 * const { metrics } = await learnFrom(agent.policy, groups, { algorithm: "grpo", learningRate: 1e-4 });
 */
export async function learnFrom(
  policy: Policy,
  groups: readonly TrajectoryGroup[],
  options: LearnFromOptions = {},
): Promise<LearnFromResult> {
  return exclusively(policy, "learnFrom()", () => learnOnce(policy, checkGroups(groups, "learnFrom()"), options));
}

async function learnOnce(
  policy: Policy,
  groups: readonly TrajectoryGroup[],
  options: LearnFromOptions,
): Promise<LearnFromResult> {
  const { chosen, rest } = splitChoice(options, "learnFrom()");
  const { step, steps, replyTokens, maxTokens, reference, ...own } = parseOptions(schema, rest, "learnFrom()");
  const algorithm = chosenAlgorithm(chosen);
  requireTrainable(policy);
  const longest = longestOf(groups);
  if (!reference && wantsReference(algorithm, own.kl.coefficient)) {
    throw new StatesetError("INVALID_OPTION", `learnFrom() with ${algorithm.name} and a KL term needs a reference.`, {
      hint: 'Make it before the first step and pass it on: reference: await policy.reference("present").',
    });
  }
  if (own.rewardShaping.normalise === "run") {
    throw new StatesetError(
      "INVALID_OPTION",
      'rewardShaping.normalise: "run" needs a run, and learnFrom() is one step.',
      {
        hint: 'Use "batch", or normalise the rewards of the groups before.',
      },
    );
  }
  const punishesLength = algorithm.shapeReward !== undefined || own.rewardShaping.overlongPenalty > 0;
  // The longest that happened to be sampled would stand for a limit, and the loss would change with every call.
  for (const [limit, value, reader, hint] of [
    ["replyTokens", replyTokens, punishesLength, "Say how many tokens a reply could have had."],
    ["maxTokens", maxTokens, algorithm.needs.maxTokens === true, "Say how many tokens a conversation could have had."],
    [
      "steps",
      steps,
      typeof algorithm.valueWarmupSteps === "function",
      "Say how many steps there will be, or set valueWarmupSteps.",
    ],
  ] as const) {
    if (!reader || value !== undefined) continue;
    throw new StatesetError("INVALID_OPTION", `learnFrom() with ${algorithm.name} needs ${limit}.`, { hint });
  }
  const learningRate = own.learningRate ?? learningRateFor(policy.model);
  const settings = {
    ...own,
    learningRate,
    valueLearningRate: own.valueLearningRate ?? learningRate,
    tokenBudget: own.tokenBudget ?? defaultTokenBudget(policy, own.recompute),
  };
  const learner = await openLearner({ policy, algorithm, reference, settings });
  const skips: SkippedUpdates = { notFinite: 0, notFiniteInARow: 0 };
  const result: LearnFromResult = { metrics: {}, updates: 0, skipped: [] };
  result.metrics = await learn(learner, groups, {
    step,
    steps: steps ?? step,
    learningRate,
    learningRateScale: 1,
    klCoefficient: own.kl.coefficient,
    entropyBonus: own.entropyBonus,
    replyTokens: replyTokens ?? longest.reply,
    maxTokens: maxTokens ?? longest.conversation,
    skips,
    async onUpdate({ applied }) {
      if (applied) result.updates++;
    },
    async onSkipped(what) {
      result.skipped.push(what);
    },
  });
  if (tooManySkipped(skips)) {
    throw notFiniteError(
      "loss or gradient",
      step,
      "The policy is as the last good update left it. Lower the learning rate, or look for broken rewards and log-probs.",
    );
  }
  return result;
}

/** Sampled tokens of the longest reply and of the longest conversation. */
function longestOf(groups: readonly TrajectoryGroup[]): { reply: number; conversation: number } {
  const sequences = sequencesOf(groups);
  if (sequences.length === 0) {
    throw new StatesetError("INVALID_DATA", "learnFrom() was given no conversation with tokens to learn from.", {
      hint: "Take groups from harvestBestOfN() or onRollouts; evaluations do not mark theirs for learning, and a stub's have none.",
    });
  }
  let reply = 0;
  for (const { turn } of sequences) {
    reply = Math.max(reply, longestReply({ turn }));
  }
  return { reply, conversation: Math.max(...sequences.map(({ old }) => old.length)) };
}
