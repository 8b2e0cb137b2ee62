/**
 * The training loop. One step:
 *   sample groups of conversations → rewards → advantages → for each pass and minibatch: forward, loss, backward, optimiser step
 *   → metrics → (evaluation, checkpoint).
 * The log-probs recorded while sampling are the old log-probs: nothing is scored twice, and the first importance ratio of a step is exactly 1.
 */
import type { Algorithm, Sequence } from "../algorithm/algorithm.ts";
import { meanMetrics, mergeMetrics } from "../algorithm/metrics.ts";
import type { EarlyStopping } from "../evaluation/early-stopping.ts";
import { learningRateAt, stepOptions } from "../learning/optimiser.ts";
import { trustRegionUpdate } from "../learning/trust-region-update.ts";
import { type Batch, type Learner, scoreExamples, type UpdateResult, update } from "../learning/update.ts";
import type { Policy } from "../policy/policy.ts";
import { createRandom, seedOf } from "../random.ts";
import type { RolloutSettings } from "../rollout/rollout.ts";
import type { RunEnd, StepMetrics, StepTiming } from "../run/events.ts";
import type { RunFiles } from "../run/run-files.ts";
import type { Emitter } from "./callbacks.ts";
import { type Collected, collect } from "./collect.ts";
import type { TrainingConfig } from "./config.ts";
import type { TrainingControls } from "./controls.ts";
import { countLost, dropKl, notFiniteLimit, reportEvaluation, reportFailures, skipped, stopOf } from "./failures.ts";
import { evaluationMetrics, type HeldOutEvaluation } from "./held-out.ts";
import { finiteMetrics, rolloutMetrics } from "./step-metrics.ts";

/** Everything that changes while a run goes on, as plain data: with the policy's snapshot, this is a checkpoint. */
export interface LoopState {
  /** Steps done. */
  step: number;
  /** Scenarios drawn so far: the data position. */
  position: number;
  optimiserSteps: number;
  conversations: number;
  /** Replies of the longest conversation so far: with the limit of a reply, Dr. GRPO's constant length. */
  mostReplies: number;
  /** Updates skipped because something was not finite: in all, and since the last good one. */
  notFinite: number;
  notFiniteInARow: number;
  /** Steps since the last one in which a conversation came through. */
  lostInARow: number;
  best: { step: number; score: number } | null;
  /** Why the run stopped early, once it has: a run that is killed right after does not go on when it is resumed. */
  stopped: string | null;
  controls: TrainingControls;
}

export interface Loop {
  policy: Policy;
  algorithm: Algorithm;
  learner: Learner;
  config: TrainingConfig;
  rollout: RolloutSettings;
  /** Tokens per reply at most. */
  replyTokens: number;
  state: LoopState;
  emitter: Emitter;
  files: RunFiles | undefined;
  heldOut: HeldOutEvaluation | undefined;
  earlyStopping: EarlyStopping | undefined;
  /** Writes a checkpoint of the state as it is; does nothing when the run keeps no files. */
  save: (best: boolean) => Promise<void>;
  signal: AbortSignal | undefined;
  /** Metrics of the steps done in this process. */
  history: StepMetrics[];
}

export async function runLoop(loop: Loop): Promise<RunEnd> {
  const { config, state, emitter } = loop;
  let savedStep: number | undefined;
  while (state.step < config.steps && state.stopped === null) {
    if (loop.signal?.aborted) {
      if (savedStep !== state.step) await loop.save(false);
      return { status: "interrupted", steps: state.step, reason: "Stopped on request." };
    }
    const step = state.step + 1;
    const learningRate = learningRateAt(step, config) * state.controls.learningRateScale;
    await emitter.emit("onStepStart", { step, totalSteps: config.steps, learningRate });

    const startedAt = performance.now();
    const collected = await collect({
      step,
      position: state.position,
      config,
      controls: state.controls,
      algorithm: loop.algorithm,
      rollout: { ...loop.rollout, temperature: state.controls.temperature },
      replyTokens: loop.replyTokens,
      mostReplies: state.mostReplies,
    });
    const sampledAt = performance.now();
    await reportFailures(emitter, step, collected);
    countLost(state, collected);
    await emitter.emit("onRollouts", { step, groups: collected.groups, report: collected.report });

    const learnt = await learn(loop, step, learningRate, collected);
    const { renewEvery } = config.kl;
    if (renewEvery > 0 && step % renewEvery === 0)
      loop.learner.reference = await loop.policy.reference({ renew: true });
    const updatedAt = performance.now();

    state.step = step;
    state.position += collected.drawn;
    state.mostReplies = collected.mostReplies;
    state.conversations += collected.report.completed;
    const verdict = await evaluate(loop, step);
    const metrics = finiteMetrics(
      step,
      rolloutMetrics(collected),
      learnt,
      { learningRate, optimiserSteps: state.optimiserSteps, notFinite: state.notFinite },
      verdict.metrics,
    );
    loop.history.push(metrics);
    loop.files?.appendMetrics(metrics);
    const { every, perStep } = config.trajectories;
    if (every > 0 && (step - 1) % every === 0) loop.files?.writeTrajectories(step, collected.groups.slice(0, perStep));

    const timing: StepTiming = {
      step,
      rolloutMs: sampledAt - startedAt,
      updateMs: updatedAt - sampledAt,
      otherMs: performance.now() - updatedAt,
      tokensPerSecond: (1000 * collected.report.sampledTokens) / Math.max(1, sampledAt - startedAt),
    };
    // Before the checkpoint, because callbacks may change the controls and their own state.
    const { groups, report } = collected;
    await emitter.emit("onStepEnd", {
      step,
      totalSteps: config.steps,
      metrics,
      timing,
      groups,
      report,
      controls: state.controls,
    });

    state.stopped = verdict.stop ?? null;
    const broken = stopOf(loop, step, collected);
    const due = config.checkpoint.every > 0 && step % config.checkpoint.every === 0;
    const last = step === config.steps || state.stopped !== null || broken !== undefined;
    if (due || last || verdict.improved) {
      await loop.save(verdict.improved);
      savedStep = step;
    }
    loop.files?.appendTiming({ ...timing, otherMs: performance.now() - updatedAt });
    if (broken) throw broken;
  }
  if (state.stopped !== null) return { status: "stopped-early", steps: state.step, reason: state.stopped };
  return { status: "finished", steps: state.step };
}

/** All updates of one step; returns their metrics. */
async function learn(
  loop: Loop,
  step: number,
  learningRate: number,
  { examples, mostReplies, report }: Collected,
): Promise<Record<string, number>> {
  const { algorithm, config, state, learner } = loop;
  if (loop.policy.model.stub) return { stub: 1 };
  if (examples.length === 0) {
    // Rewards that are not numbers count like losses that are not; conversations lost otherwise are only reported.
    if (report.rewardFailures.some((failure) => failure.notFinite)) await skipped(loop, step, "every reward");
    return {};
  }
  if (state.controls.klCoefficient > 0 && !learner.reference) await dropKl(loop, step);
  const { klCoefficient, entropyBonus } = state.controls;
  const reference = algorithm.needs.reference === true || klCoefficient > 0;
  await scoreExamples(learner, examples, {
    values: algorithm.needs.values === true,
    reference,
    sampled: algorithm.needs.sampled === true,
  });

  const sequences = examples.map((example) => example.sequence);
  const advantages = algorithm.advantages(sequences);
  const useAll = algorithm.usesZeroAdvantages === true || klCoefficient > 0 || entropyBonus > 0;
  const valueOnly = step <= (algorithm.valueWarmupSteps ?? 0);
  const regularisers = { klCoefficient, klEstimator: config.kl.estimator, entropyBonus };

  const metrics = {};
  let last: UpdateResult | undefined;
  const summary: Record<string, number> = { learnedConversations: 0 };
  for (let epoch = 0; epoch < config.updatesPerRollout && state.notFiniteInARow < notFiniteLimit; epoch++) {
    for (const [minibatch, groups] of dealGroups(sequences, config, step, epoch).entries()) {
      const members = sequences.flatMap(({ group, truncated }, i) =>
        groups.has(group) && !(config.maskTruncated && truncated) ? [i] : [],
      );
      const batch: Batch = {
        examples,
        advantages,
        members: useAll ? members : members.filter((i) => advantages[i]!.advantages.some((a) => a !== 0)),
        counts: {
          sequences: members.length,
          tokens: members.reduce((sum, i) => sum + sequences[i]!.old.length, 0),
          groups: new Set(members.map((i) => sequences[i]!.group)).size,
          maxTokens: loop.replyTokens * mostReplies,
        },
      };
      if (epoch === 0) summary.learnedConversations! += batch.members.length;
      if (batch.members.length === 0) continue;
      const result = algorithm.trustRegion
        ? await trustRegionUpdate(learner, batch, algorithm.trustRegion, regularisers, state.controls.learningRateScale)
        : await update(learner, batch, regularisers, {
            ...stepOptions(config, learningRate),
            valueLearningRate: (learningRate / config.learningRate) * config.valueLearningRate,
            scope: valueOnly ? "value" : "all",
          });
      if (last === undefined) summary.firstRatioMax = result.ratioMax;
      last = result;
      mergeMetrics(metrics, result.metrics);
      algorithm.afterUpdate?.(meanMetrics(result.metrics));
      if (result.skipped !== undefined) await skipped(loop, step, result.skipped);
      else {
        state.notFiniteInARow = 0;
        state.optimiserSteps++;
      }
      const { loss, gradNorm } = result;
      await loop.emitter.emit("onUpdate", {
        step,
        epoch,
        minibatch,
        loss,
        gradNorm,
        applied: result.skipped === undefined,
      });
      if (state.notFiniteInARow >= notFiniteLimit) break;
    }
  }
  return { ...meanMetrics(metrics), ...summary, ...(last && { loss: last.loss, gradNorm: last.gradNorm }) };
}

/** The groups of each minibatch of a pass. Groups stay whole; with several minibatches they are dealt anew in every pass. */
function dealGroups(
  sequences: readonly Sequence[],
  config: TrainingConfig,
  step: number,
  epoch: number,
): Set<number>[] {
  const groups = [...new Set(sequences.map((sequence) => sequence.group))];
  const parts = Math.min(config.minibatches, groups.length);
  if (parts <= 1) return [new Set(groups)];
  const order = createRandom(seedOf(config.seed, "minibatches", step, epoch)).shuffled(groups);
  return Array.from({ length: parts }, (_, part) => new Set(order.filter((_, i) => i % parts === part)));
}

async function evaluate(loop: Loop, step: number) {
  const { heldOut, config, state, emitter } = loop;
  const due = config.evaluation.every > 0 && (step % config.evaluation.every === 0 || step === config.steps);
  if (!heldOut || !due) return { metrics: {}, improved: false, stop: undefined };
  const result = await heldOut.evaluate(step, "selection");
  await reportEvaluation(emitter, result);
  const score = result.reward.mean;
  const improved = Number.isFinite(score) && (state.best === null || score > state.best.score);
  if (improved) state.best = { step, score };
  const decision = loop.earlyStopping?.observe(step, score);
  return { metrics: evaluationMetrics(result), improved, stop: decision?.stop ? decision.reason : undefined };
}
