/** Learning from data as a run. What is learnt is the caller's: `learn` adds the gradients of one batch and returns its mean loss. */
import type { Agent } from "../agent/agent.ts";
import { writeFolderAtomic } from "../durable.ts";
import { StatesetError } from "../error.ts";
import { exclusively } from "../learning/exclusive.ts";
import { defaultTokenBudget } from "../learning/optimiser.ts";
import { requireLoraPlus, requireTrainable } from "../learning/trainable.ts";
import type { Policy, StepOptions } from "../policy/policy.ts";
import { type RunPart, restoreParts, runDirOf } from "../run/checkpoint/store.ts";
import { type Change, changesText, type LearnerKind, modelFacts, readConfig } from "../run/config.ts";
import type { DataEvaluation, EvaluationRecord } from "../run/event.ts";
import type { SeenNumbers } from "../run/example-records.ts";
import { pathIn } from "../run/layout.ts";
import { changesOnResume, type OpenedRun, type OpenRunOptions, openRun } from "../run/open-run.ts";
import type { RunChoice } from "../run/options.ts";
import type { Run } from "../run/run.ts";
import { type RunSummary, summaryOf } from "../run/summary.ts";
import type { RecordedConversation } from "../run/trajectories.ts";
import { withProgress } from "../telemetry/with-progress.ts";
import { type FitLoop, type FitState, initialFitState, runFit, saveFit } from "./fit-loop.ts";
import type { FitSettings } from "./fit-options.ts";

type Facts = Readonly<Record<string, unknown>>;

/** What the passes of a step said of its examples, by their index: of a pair, of both sides in one list; by a reward model, side by side. */
export type SeenExamples = Map<number, SeenNumbers & { scores?: { better: number; worse: number } }>;

export interface FitTask<E extends object = object> {
  learner: LearnerKind;
  policy: Policy;
  agent?: Agent | undefined;
  /** Where it is kept, who looks on, how it is stopped. */
  on: RunChoice;
  /** Resolved, with those of the learner's own beside; and what they would be had nothing been said. */
  settings: FitSettings;
  defaults: Facts;
  /** What is learnt from and measured on, described. */
  data: Facts;
  /** What may not change on a resume beside what the order of batches depends on: paths in config.json. */
  fixed?: readonly string[];
  /** How many examples there are; a batch is a list of their indices. */
  count: number;
  /** Said at the start: what of the data could not be used. */
  cut?: string | undefined;
  /** What a checkpoint keeps beside the policy. */
  parts?: Readonly<Record<string, RunPart>>;
  /** Done before the first step and after a resume has put everything back. */
  prepare?(signal: AbortSignal | undefined): Promise<void>;
  /** `seen` is there in steps whose tokens are written: to be told what the passes say of the examples. */
  learn(batch: readonly number[], signal: AbortSignal | undefined, seen: SeenExamples | undefined): Promise<number>;
  /** Examples as they are written to the run, with what was seen of them. */
  record(batch: readonly number[], step: number, seen: SeenExamples): RecordedConversation[];
  /** How many tokens a batch is learnt from. */
  tokens(batch: readonly number[]): number;
  evaluate?: ((signal: AbortSignal | undefined) => Promise<E>) | undefined;
  /** What policy.step() is told beside the optimiser's settings. */
  step?: Pick<StepOptions, "scope">;
  /** Done when the last step is, before what was learnt is written. */
  finish?(signal: AbortSignal | undefined): Promise<void>;
  /** Writes what was learnt; left out, the agent or the policy is saved. */
  save?(dir: string): Promise<void>;
}

export interface FitResult<E> {
  steps: number;
  /** Mean loss of each step; of a resumed run also of those before. */
  losses: number[];
  /** Steps whose update was skipped because the loss or the gradient was not finite. */
  skipped: number[];
  evaluations: (E & { step: number })[];
  run: RunSummary<FitSettings, DataEvaluation>;
}

export async function fit<E extends object>(task: FitTask<E>): Promise<FitResult<E>> {
  requireTrainable(task.policy);
  const noAdapter = task.step?.scope === "value" ? "only the value head learns" : undefined;
  requireLoraPlus(task.policy, task.settings.loraPlusRatio, noAdapter);
  return exclusively(task.policy, "learning from data", () => fitAlone(task));
}

async function fitAlone<E extends object>(task: FitTask<E>): Promise<FitResult<E>> {
  const { policy, settings, on, count } = task;
  const steps = Math.ceil(count / settings.batchSize) * settings.epochs;
  const config = configOf(task);
  const changes = changesIn(task, config);
  const opened = await openRun<FitState>(
    {
      nameAfter: task.learner,
      place: on,
      config,
      steps,
      keep: settings.checkpoint.keep,
      callbacks: withProgress(on),
      trackers: on.trackers ?? [],
      signal: on.signal,
    },
    policy,
  );
  const { run } = opened;
  const loop: FitLoop = { task, run, state: initialFitState(), order: undefined };
  let finalDir: string | undefined;
  const work = async () => {
    await restore(loop, opened);
    await begin(loop, changes);
    await task.prepare?.(run.signal);
    const end = await runFit(loop);
    await task.finish?.(run.signal);
    run.progress({ phase: "saving" });
    finalDir = await saveFinal(task, run.dir);
    return end;
  };
  const end = await run.conclude(work, () => saveFit(loop, { best: false, planned: false }));
  const summary = summaryOf(run, end, {
    finalDir,
    config: settings,
    best: loop.state.best,
    evaluation: beforeAndAfter(run),
    stub: false,
  });
  return { steps: end.steps, ...numbersOf<E>(loop), run: summary };
}

function configOf({ learner, policy, agent, settings, data, count }: FitTask): OpenRunOptions["config"] {
  return {
    learner,
    model: modelFacts(policy.model),
    settings: { ...settings },
    ...(agent && { agent: agent.describe() }),
    data: { ...data, learnt: count },
  };
}

/** What the resumed run does differently from here on. Refused where its place in the data would no longer mean the same. */
function changesIn({ on, fixed = [] }: FitTask, config: OpenRunOptions["config"]): Change[] {
  if (on.resumeFrom === undefined) return [];
  const saved = readConfig(runDirOf(on.resumeFrom));
  const changes = changesOnResume(saved, config);
  const kept = ["data.learnt", "settings.batchSize", "settings.seed", ...fixed];
  const refused = changes.filter(({ path }) => kept.some((one) => path === one || path.startsWith(`${one}.`)));
  if (refused.length === 0) return changes;
  const text = changesText(refused, `The run "${saved.id}" cannot go on otherwise than it began`);
  throw new StatesetError("CHECKPOINT_MISMATCH", text, {
    hint: "Its checkpoints hold a place in that data, in that order. Give what it began with, or start a new run from its final/ folder or a checkpoint.",
  });
}

async function restore({ task, state }: FitLoop, { checkpoint }: OpenedRun<FitState>): Promise<void> {
  if (!checkpoint) return;
  await restoreParts(checkpoint.dir, { policy: task.policy, ...task.parts });
  Object.assign(state, checkpoint.state.learner);
}

async function begin({ task, run }: FitLoop, changes: readonly Change[]): Promise<void> {
  const { learner, policy, settings, on, cut } = task;
  const defaults = { ...task.defaults, tokenBudget: defaultTokenBudget(policy, settings.recompute) };
  const resumedAfter = on.resumeFrom === undefined ? undefined : run.step;
  await run.begin(learner, { settings: { ...settings }, defaults, resumedAfter });
  if (changes.length > 0) await run.say({ kind: "options-changed", message: changesText(changes) });
  if (cut !== undefined) await run.warnAtStart({ kind: "data-cut", message: cut });
}

async function saveFinal({ agent, policy, save }: FitTask, dir: string | undefined): Promise<string | undefined> {
  if (dir === undefined) return undefined;
  const own = pathIn(dir, "final");
  await writeFolderAtomic(own, save ?? ((temporary) => (agent ?? policy).save(temporary)));
  return own;
}

const isData = (record: EvaluationRecord): record is DataEvaluation => record.set === "held-out";

function beforeAndAfter({ evaluations, step }: Run<FitState>): RunSummary<unknown, DataEvaluation>["evaluation"] {
  const before = evaluations.filter(isData).find((one) => one.step === 0);
  const after = evaluations.filter(isData).findLast((one) => one.step === step && step > 0);
  return before && { before, after };
}

/** What the records of the run say, which hold those before a resume too. */
function numbersOf<E>({ run, state }: FitLoop): Pick<FitResult<E>, "losses" | "skipped" | "evaluations"> {
  const { records, evaluations } = run;
  const steps = [...records.filter(({ step }) => step > 0), ...(state.pending ? [state.pending] : [])];
  return {
    losses: steps.map(({ loss }) => loss ?? Number.NaN),
    skipped: steps.filter(({ notFinite }, i) => notFinite! > (steps[i - 1]?.notFinite ?? 0)).map(({ step }) => step),
    evaluations: evaluations.filter(isData).map(({ step, numbers }) => ({ ...(numbers as E), step })),
  };
}
