/**
 * The plain optimisation loop that learning from data shares: epochs of shuffled batches, a schedule, clipping, evaluation in between.
 * An abort acts between two forward passes: the gradient of the step under way is dropped, and the run is saved as it was before it.
 */
import { throwIfAborted } from "../abort.ts";
import { noteApplied, noteSkipped, notFiniteError, type SkippedUpdates, tooManySkipped } from "../learning/finite.ts";
import { learningRateAt, stepOptions } from "../learning/optimiser.ts";
import { createRandom, seedOf } from "../random.ts";
import { evaluationLines, evaluationMetrics } from "../run/evaluation-metrics.ts";
import type { DataEvaluation, RunEnd, StepMetrics } from "../run/event.ts";
import { finiteMetrics } from "../run/metrics.ts";
import type { Run } from "../run/run.ts";
import { writeTrajectories } from "../run/trajectories.ts";
import type { FitTask, SeenExamples } from "./fit.ts";

/** Everything that changes while it goes on, as plain data; with the parts of the run this is a checkpoint. The step is the data position. */
export interface FitState extends SkippedUpdates {
  optimiserSteps: number;
  /** The step with the lowest held-out loss. */
  best: { step: number; score: number } | null;
  /** The metrics of a step whose evaluation has yet to be done. */
  pending: StepMetrics | null;
}

export interface FitLoop {
  task: FitTask;
  run: Run<FitState>;
  state: FitState;
  /** The examples in the order of an epoch. */
  order: { epoch: number; indices: readonly number[] } | undefined;
}

export function initialFitState(): FitState {
  return { notFinite: 0, notFiniteInARow: 0, optimiserSteps: 0, best: null, pending: null };
}

export function saveFit({ run, task, state }: FitLoop, options: { best: boolean; planned: boolean }): Promise<void> {
  return run.save(task.policy.model, { policy: task.policy, ...task.parts }, state, options);
}

/** Rejects with ABORTED when the signal fires. */
export async function runFit(loop: FitLoop): Promise<RunEnd> {
  const { run, state } = loop;
  if (run.step === 0 && !run.evaluations.some(({ step }) => step === 0)) {
    const before = await evaluate(loop, 0);
    if (before) run.record(finiteMetrics(0, evaluationMetrics(before)));
  }
  // A run that was stopped during an evaluation takes that up first.
  if (state.pending) await endStep(loop, state.pending);
  while (run.step < run.steps && run.stopped === null) await runStep(loop);
  if (run.stopped !== null) return { status: "stopped-early", steps: run.step, reason: run.stopped };
  return { status: "finished", steps: run.step };
}

async function runStep(loop: FitLoop): Promise<void> {
  const { run, state, task } = loop;
  const { policy, settings } = task;
  throwIfAborted(run.signal, run.afterSteps);
  const step = run.step + 1;
  const learningRate = learningRateAt(step, { ...settings, steps: run.steps });
  await run.stepStart({ step, totalSteps: run.steps, learningRate });

  run.progress({ phase: "learning" });
  const startedAt = performance.now();
  const { epoch, minibatch, batch } = batchOf(loop, step);
  // A pass draws its dropout mask by its number: one that was dropped half-way would be counted, and the run not be the same when resumed.
  const within = policy.model.lora?.dropout ? undefined : run.signal;
  const { every, perStep, tokens } = settings.trajectories;
  const recorded = run.dir !== undefined && every > 0 && (step - 1) % every === 0;
  const seen: SeenExamples = new Map();
  const loss = await task.learn(batch, within, recorded && tokens ? seen : undefined);
  let report = { gradNorm: Number.NaN, applied: false };
  if (Number.isFinite(loss)) report = await policy.step({ ...stepOptions(settings, learningRate), ...task.step });
  else await policy.zeroGradients();
  const { gradNorm, applied } = report;
  const updatedAt = performance.now();
  if (applied) {
    noteApplied(state);
    state.optimiserSteps++;
  } else noteSkipped(state);
  const { optimiserSteps, notFinite } = state;
  const metrics = finiteMetrics(step, { loss, gradNorm, learningRate, optimiserSteps, notFinite });
  run.step = step;
  state.pending = metrics;

  if (recorded) writeTrajectories(run.dir!, step, task.record(batch.slice(0, perStep), step, seen), { tokens });

  const what = Number.isFinite(loss) ? "gradient" : "loss";
  await run.tell("update", step, { epoch, minibatch, loss, gradNorm, applied });
  if (!applied) {
    const message = `Step ${step}: the ${what} was NaN or infinite; the update was skipped (${notFinite} so far).`;
    await run.warn({ kind: "not-finite", message }, step);
  }
  const updateMs = updatedAt - startedAt;
  const tokensPerSecond = (1000 * task.tokens(batch)) / Math.max(1, updateMs);
  const timing = { step, rolloutMs: 0, updateMs, tokensPerSecond };
  const told = { totalSteps: run.steps, timing, stop: run.stop, tell: run.tellFinding };
  await run.tell("step", step, { metrics }, told);
  const broken = tooManySkipped(state);
  // The checkpoint is for whoever has mended what was wrong: with the count as it is, it would stop again at once.
  if (broken) state.notFiniteInARow = 0;
  await endStep(loop, metrics, broken);
  run.time({ ...timing, otherMs: performance.now() - updatedAt });
  if (broken) throw notFiniteError(what, step, adviceFor(run));
}

function batchOf(loop: FitLoop, step: number) {
  const { count, settings } = loop.task;
  const { batchSize, seed } = settings;
  const perEpoch = Math.ceil(count / batchSize);
  const epoch = Math.floor((step - 1) / perEpoch);
  const minibatch = (step - 1) % perEpoch;
  if (loop.order?.epoch !== epoch) {
    const all = Array.from({ length: count }, (_, i) => i);
    loop.order = { epoch, indices: createRandom(seedOf(seed, "epoch", epoch)).shuffled(all) };
  }
  const from = minibatch * batchSize;
  return { epoch, minibatch, batch: loop.order.indices.slice(from, from + batchSize) };
}

/** What follows once the policy has learnt: the evaluation, the record of the step, a checkpoint. */
async function endStep(loop: FitLoop, metrics: StepMetrics, broken = false): Promise<void> {
  const { run, state, task } = loop;
  const { evaluateEvery, checkpoint } = task.settings;
  const { step } = metrics;
  const due = (every: number) => every > 0 && step % every === 0;
  const last = () => step === run.steps || run.stopped !== null;
  const evaluation = !broken && (due(evaluateEvery) || last()) ? await evaluate(loop, step) : undefined;
  const score = evaluation?.numbers.loss ?? Number.NaN;
  const improved = Number.isFinite(score) && (state.best === null || score < state.best.score);
  if (improved) state.best = { step, score };
  run.record(finiteMetrics(step, metrics, evaluation ? evaluationMetrics(evaluation) : {}));
  state.pending = null;
  if (due(checkpoint.every) || last() || broken || improved) await saveFit(loop, { best: improved, planned: true });
}

async function evaluate({ run, task }: FitLoop, step: number): Promise<DataEvaluation | undefined> {
  if (!task.evaluate) return undefined;
  throwIfAborted(run.signal, "before an evaluation");
  run.progress({ phase: "evaluating" });
  const numbers: Record<string, number> = { ...(await task.evaluate(run.signal)) };
  const evaluation: DataEvaluation = { step, set: "held-out", numbers };
  run.recordEvaluation(evaluationLines(evaluation));
  await run.tell("evaluation", step, { set: "held-out", numbers }, { stop: run.stop });
  return evaluation;
}

function adviceFor({ dir }: Run<FitState>): string {
  const saved =
    dir === undefined ? "The model is as the last good step left it and can be saved." : "A checkpoint was saved.";
  return `${saved} Lower the learning rate, or look for broken examples, then ${dir === undefined ? "run it again" : "resume"}.`;
}
