/**
 * The training loop. One step: sample groups of conversations → learn from them (learning/learn.ts) → metrics → (evaluation, checkpoint).
 * An abort acts within a decoding step: what was sampled of the step under way is dropped, and the run is saved as it was before it.
 * Once a step has begun to learn it is finished, because half of its updates could not be resumed.
 */
import { throwIfAborted } from "../abort.ts";
import type { EarlyStopping } from "../evaluation/early-stopping.ts";
import { noteSkipped, type SkippedUpdates } from "../learning/finite.ts";
import { learn } from "../learning/learn.ts";
import type { Learner } from "../learning/learner.ts";
import type { LearntTokens } from "../learning/learnt-tokens.ts";
import { learningRateAt } from "../learning/optimiser.ts";
import type { RewardMoments } from "../learning/shape-rewards.ts";
import type { Rollout } from "../rollout/rollout.ts";
import type { RewardEvaluation, RunEnd, StepMetrics } from "../run/event.ts";
import { finiteMetrics, type Metrics } from "../run/metrics.ts";
import type { Run } from "../run/run.ts";
import type { TrainingStepEnd } from "./callbacks.ts";
import { type Collected, collect } from "./collect.ts";
import type { TrainingConfig } from "./config.ts";
import { followKl, type TrainingControls } from "./controls.ts";
import { countLost, dropKl, reportFailures, reportLearning, reportSkipped, stopOf } from "./failures.ts";
import type { HeldOutEvaluation } from "./held-out.ts";
import type { Recall } from "./recall.ts";
import { openRecord } from "./record-step.ts";
import { type SavedState, saveLoop } from "./saved-loop.ts";
import type { ScenarioOrder } from "./scenario-order.ts";
import { evaluateStep } from "./selection.ts";
import { rolloutFacts, rolloutMetrics } from "./step-metrics.ts";
import { StepTimer } from "./step-timing.ts";

/** Everything that changes while a run goes on, as plain data: with the policy's snapshot, this is a checkpoint. */
export interface LoopState extends SkippedUpdates {
  /** Scenarios drawn so far: the data position. */
  position: number;
  optimiserSteps: number;
  /** min(0, the lowest reward so far): what a failed conversation counts. */
  lowestReward: number;
  /** Steps since the last one in which a conversation came through. */
  lostInARow: number;
  /** The step that did best on the selection scenarios, and how many of them there were. Step 0 is the policy the run began with. */
  best: { step: number; score: number; scenarios: number } | null;
  controls: TrainingControls;
  /** The metrics of a step whose evaluation has yet to be done. */
  pending: StepMetrics | null;
  /** Parts of the reward of which it was said already that they fail, and what else is said once: what rewards say of themselves, a full context. */
  failedParts: string[];
  notices: string[];
  rewardMoments: RewardMoments;
  /** Whether it was said already that the first ratio is not 1. */
  ratioReported: boolean;
}

export interface Loop {
  learner: Learner;
  config: TrainingConfig;
  rollout: Rollout;
  scenarios: ScenarioOrder;
  /** Undefined where nothing is recalled. */
  recall: Recall | undefined;
  /** Tokens per reply at most. */
  replyTokens: number;
  /** In nats a token: a step that moves the policy by more is taken back. */
  undoBeyond: number | undefined;
  state: LoopState;
  run: Run<SavedState>;
  heldOut: HeldOutEvaluation | undefined;
  /** The evaluation before the first step. */
  before: RewardEvaluation | undefined;
  earlyStopping: EarlyStopping | undefined;
}

/** Rejects with ABORTED when the signal fires. */
export async function runLoop(loop: Loop): Promise<RunEnd> {
  const { config, state, run } = loop;
  // A run that was stopped during an evaluation takes that up first.
  if (state.pending) await endStep(loop, state.pending);
  while (run.step < config.steps && run.stopped === null) await runStep(loop);
  if (run.stopped !== null) return { status: "stopped-early", steps: run.step, reason: run.stopped };
  return { status: "finished", steps: run.step };
}

async function runStep(loop: Loop): Promise<void> {
  const { config, state, run, scenarios, recall } = loop;
  const { signal } = run;
  throwIfAborted(signal, run.afterSteps);
  const step = run.step + 1;
  const learningRate = learningRateAt(step, config) * state.controls.learningRateScale;
  await run.stepStart({ step, totalSteps: config.steps, learningRate });

  const timer = new StepTimer(step, loop.learner.policy);
  const rollout = { ...loop.rollout, watch: run.live?.of(step) };
  const { position, lowestReward, controls } = state;
  const { algorithm } = loop.learner;
  const plan = { step, position, lowestReward, config, controls, algorithm, rollout, scenarios, recall, signal };
  const collected = await collect(plan);
  timer.sampled();
  const { groups, report } = collected;
  await reportFailures(loop, step, collected);
  countLost(state, collected);
  await run.tell("rollouts", step, rolloutFacts(collected), { groups, report });

  const record = openRecord(run, config, step, collected);
  const learnt = await learnFromStep(loop, step, learningRate, collected, record?.learnt);
  const timing = timer.updated(report.sampledTokens);
  run.step = step;
  for (const one of [recall, scenarios.sampler]) one?.note([...groups, ...collected.refused]);
  state.position += collected.drawn;
  state.lowestReward = report.lowestReward;
  const { optimiserSteps, notFinite } = state;
  const metrics = finiteMetrics(step, rolloutMetrics(collected), learnt, { learningRate, optimiserSteps, notFinite });
  state.pending = metrics;
  record?.write();
  // Before the checkpoint, because callbacks may change the controls and their own state.
  const vocabulary = loop.learner.policy.model.vocabSize;
  const { stop, tellFinding: tell } = run;
  const told = { totalSteps: config.steps, timing, groups, report, vocabulary, controls, stop, tell };
  await run.tell("step", step, { metrics }, told satisfies Omit<TrainingStepEnd, "step" | "metrics">);
  const broken = stopOf(loop, step, collected);
  await endStep(loop, metrics, broken !== undefined);
  run.time(timer.ended(timing));
  if (broken) throw broken;
}

/** All updates of one step; returns their metrics. */
async function learnFromStep(
  loop: Loop,
  step: number,
  learningRate: number,
  { groups, report }: Collected,
  tokens: LearntTokens | undefined,
): Promise<Metrics> {
  const { learner, config, state, run, replyTokens } = loop;
  const { controls } = state;
  if (learner.policy.model.stub) return { stub: 1 };
  if (controls.klCoefficient > 0 && !learner.reference) await dropKl(loop, step);
  const learnt = await learn(learner, groups, {
    ...controls,
    step,
    steps: config.steps,
    learningRate,
    replyTokens,
    maxTokens: replyTokens * config.maxTurns,
    skips: state,
    rewardMoments: state.rewardMoments,
    undoBeyond: loop.undoBeyond,
    recalled: groups.flatMap((group, index) => loop.recall?.joining(group, index) ?? []),
    learnt: tokens,
    onSkipped: (what) => reportSkipped(loop, step, what),
    async onUpdate(update) {
      if (update.applied) state.optimiserSteps++;
      await run.tell("update", step, update);
    },
  });
  followKl(controls, config.kl, learnt);
  await reportLearning(loop, step, learnt);
  // Rewards that are not numbers count like losses that are not; conversations lost otherwise are only reported.
  if (groups.length === 0 && report.failures.some(({ kind }) => kind === "not-finite")) {
    noteSkipped(state);
    await reportSkipped(loop, step, "every reward");
  }
  const { renewEvery } = config.kl;
  if (renewEvery > 0 && step % renewEvery === 0) {
    await learner.reference?.close();
    learner.reference = await learner.policy.reference("present");
  }
  return learnt;
}

/** What follows once the policy has learnt: the evaluation, the record of the step, a checkpoint. */
async function endStep(loop: Loop, metrics: StepMetrics, broken = false): Promise<void> {
  const { config, state, run } = loop;
  const { step } = metrics;
  const { evaluation, improved } = await evaluateStep(loop, step);
  run.record(finiteMetrics(step, metrics, evaluation));
  state.pending = null;
  const due = config.checkpoint.every > 0 && step % config.checkpoint.every === 0;
  const last = step === config.steps || run.stopped !== null || broken;
  if (due || last || improved) await saveLoop(loop, { best: improved, planned: true });
}
