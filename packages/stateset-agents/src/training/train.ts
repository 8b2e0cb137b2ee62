import { resolve } from "node:path";
import type { Agent } from "../agent/agent.ts";
import type { Algorithm } from "../algorithm/algorithm.ts";
import { writeFolderAtomic } from "../durable.ts";
import { Environment } from "../environment/environment.ts";
import type { Scenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import { EarlyStopping } from "../evaluation/early-stopping.ts";
import { type OpenRollout, openRollout, scenariosOf } from "../harness/open-rollout.ts";
import { exclusively } from "../learning/exclusive.ts";
import { type Learner, openLearner, wantsReference } from "../learning/learner.ts";
import { noMoments } from "../learning/shape-rewards.ts";
import { requireTrainable } from "../learning/trainable.ts";
import { type Rollout, scorerOf } from "../rollout/rollout.ts";
import type { RunProgress } from "../run/callbacks.ts";
import { changesText } from "../run/config.ts";
import { writeEvaluation } from "../run/evaluation-conversations.ts";
import type { RewardEvaluation, RunEnd } from "../run/event.ts";
import { pathIn } from "../run/layout.ts";
import { type OpenedRun, openRun } from "../run/open-run.ts";
import { type RunSummary, summaryOf } from "../run/summary.ts";
import { survive } from "../run/survive.ts";
import { withProgress } from "../telemetry/with-progress.ts";
import type { TrainingStart } from "./callbacks.ts";
import { requireCapabilities } from "./capabilities.ts";
import type { TrainingConfig } from "./config.ts";
import { initialControls } from "./controls.ts";
import { defaultsOf } from "./defaults.ts";
import { leap } from "./diagnostics/verdicts.ts";
import { reportHeldOut, reportMismatch, reportUnusual } from "./failures.ts";
import { firstLook } from "./first-look.ts";
import { createHeldOut, type HeldOutEvaluation, type HeldOutOptions, heldOutProblems } from "./held-out.ts";
import { type Loop, type LoopState, runLoop } from "./loop.ts";
import { Recall, willRecall } from "./recall.ts";
import { mayAdjustKl, mayUndo, type ResolvedRun, resolveRun } from "./resolve-run.ts";
import { restoreLoop, type SavedState, saveLoop } from "./saved-loop.ts";
import { ScenarioOrder } from "./scenario-order.ts";
import { ScenarioSampler } from "./scenario-sampler.ts";
import { chooseWeights, evaluateAfter, evaluateBefore } from "./selection.ts";
import type { TrainOptions, TrainParts } from "./train-options.ts";

export interface TrainResult<A extends Agent = Agent> {
  /** The agent that was given, trained: it can be talked to at once. */
  agent: A;
  run: RunSummary<TrainingConfig, RewardEvaluation>;
}

/**
 * Trains an agent by reinforcement on conversations with an environment, or in a harness, and returns it, ready to be used.
 *
 * @example
 * const { agent, run } = await train({ agent, environment, reward, steps: 40 });
 * console.log(run.metrics.at(-1)?.reward, await agent.generateResponse([{ role: "user", content: "Hi" }]));
 */
export async function train<A extends Agent>(options: TrainOptions<A>): Promise<TrainResult<A>> {
  const resolved = await resolveRun(options);
  const { parts, config } = resolved;
  assertTrainable(parts, resolved.algorithm, config);
  return exclusively(parts.agent.policy, "train()", () => trainAlone(resolved));
}

async function trainAlone<A extends Agent>(resolved: ResolvedRun<A>): Promise<TrainResult<A>> {
  const { parts, config, algorithm, facts } = resolved;
  const { policy } = parts.agent;
  // First of all, because a checkpoint is compared with what the policy is to learn.
  const learner = await openLearner({ policy, algorithm, reference: undefined, settings: config });
  const opened = await openRun<SavedState>(
    {
      nameAfter: algorithm.name,
      place: parts,
      config: facts,
      steps: config.steps,
      keep: config.checkpoint.keep,
      callbacks: withProgress(parts),
      trackers: parts.trackers ?? [],
      signal: parts.signal,
    },
    policy,
  );
  const { run } = opened;
  const untaught = structuredClone(algorithm.state?.() ?? {});
  let loop: Loop | undefined;
  let after: RewardEvaluation | undefined;
  let finalDir: string | undefined;
  const work = async (from: OpenedRun<SavedState>, { rollout }: OpenRollout) => {
    if (from !== opened) {
      // Of an earlier attempt, whose worker was lost.
      algorithm.restore?.(untaught);
      Object.assign(learner, await openLearner({ ...learner, reference: undefined }));
    }
    loop = await openLoop(resolved, learner, from, rollout);
    await begin(loop, resolved, from);
    await evaluateBefore(loop);
    await firstLook(loop);
    const end = await runLoop(loop);
    const weights = await chooseWeights(loop);
    after = await evaluateAfter(loop, weights);
    if (!policy.model.stub) end.weights = weights;
    run.progress({ phase: "saving" });
    finalDir = await saveFinal(parts, run.dir);
    return end;
  };
  const attempt = async (from: OpenedRun<SavedState>): Promise<RunEnd> => {
    const driven = await drive(resolved, run);
    const close = () => [driven.rollout.scorer?.close(), driven.close()];
    const end = await work(from, driven).catch(async (error: unknown) => {
      await Promise.allSettled(close());
      throw error;
    });
    await Promise.all(close());
    return end;
  };
  const end = await run.conclude(
    () => survive(opened, { policy, restarts: config.restarts }, attempt),
    () => saveLoop(loop!, { best: false, planned: false }),
  );
  const { before, state } = loop!;
  return {
    agent: parts.agent,
    run: summaryOf(run, end, {
      finalDir,
      config,
      best: state.best,
      evaluation: before && { before, after },
      stub: policy.model.stub,
    }),
  };
}

function drive({ parts, config }: ResolvedRun, run: OpenedRun<SavedState>["run"]): Promise<OpenRollout> {
  const { agent, environment, harness, reward } = parts;
  const scorer = scorerOf(agent);
  const onProgress = (progress: Omit<RunProgress, "step" | "totalSteps">) => run.progress(progress);
  const driven = { agent, environment, harness, reward, settings: config, scorer, onProgress };
  return openRollout({ ...driven, learn: true, keepActivations: true });
}

async function openLoop(
  { parts, config, algorithm }: ResolvedRun,
  learner: Learner,
  opened: OpenedRun<SavedState>,
  rollout: Rollout,
): Promise<Loop> {
  const { agent } = parts;
  const { policy } = agent;
  const { kl } = config;
  const onProgress = (progress: Omit<RunProgress, "step" | "totalSteps">) => opened.run.progress(progress);
  learner.onPass = (progress) => onProgress({ phase: "learning", ...progress });
  const keepsReference = wantsReference(algorithm, kl.coefficient) || mayAdjustKl(parts);
  if (kl.renewEvery > 0 && !keepsReference) {
    throw new StatesetError("INVALID_OPTION", "kl.renewEvery has nothing to renew: the run keeps no reference.", {
      hint: "Set kl.coefficient, or the algorithm's beta, above 0.",
    });
  }
  // A checkpoint brings its own.
  const of = kl.reference === "base" ? "base" : "present";
  if (keepsReference && !policy.model.stub) learner.reference = await policy.reference(of);
  const loop: Loop = {
    learner,
    config,
    rollout,
    scenarios: new ScenarioOrder(scenariosOf(parts), config.seed, samplerOf(config)),
    recall: willRecall(config, algorithm) && !policy.model.stub ? new Recall(config) : undefined,
    replyTokens: config.sampling.maxTokens ?? agent.sampling.maxTokens,
    undoBeyond: mayUndo(parts) ? leap : undefined,
    state: initialState(config, agent),
    run: opened.run,
    heldOut: heldOutOf(parts, config, {
      ...{ scorer: rollout.scorer, play: rollout.play, record: evaluationRecord(opened.run, config) },
      onProgress: (progress) => onProgress({ ...progress, phase: "evaluating" }),
    }),
    before: undefined,
    earlyStopping: config.earlyStopping && new EarlyStopping(config.earlyStopping),
  };
  await restoreLoop(loop, opened);
  return loop;
}

function samplerOf({ sampler: { kind, floor } }: TrainingConfig): ScenarioSampler | undefined {
  return kind === "uniform" ? undefined : new ScenarioSampler({ kind, floor });
}

async function begin(
  loop: Loop,
  { parts, config, algorithm, changes }: ResolvedRun,
  { checkpoint }: OpenedRun<SavedState>,
): Promise<void> {
  const { run } = loop;
  const { name, options } = algorithm;
  const resumedAfter = parts.resumeFrom === undefined && !checkpoint ? undefined : run.step;
  const settings = { ...config, ...options, algorithm: name };
  const { policy } = parts.agent;
  const defaults = defaultsOf(name, { model: policy.model, policy, recompute: config.recompute });
  const view = { config, algorithm: { name, options }, resumedAfter, settings, defaults };
  await run.begin(name, view satisfies Omit<TrainingStart, "id" | "dir" | "learner" | "steps" | "saved">);
  if (changes.length > 0) await run.say({ kind: "options-changed", message: changesText(changes) });
  if (parts.agent.policy.model.stub) {
    const message = "The agent is a stub: conversations are played and rewarded, but nothing is learnt or saved.";
    await run.warn({ kind: "stub", message });
  }
  await reportUnusual(loop, parts.agent.sampling);
  const { heldOut } = parts;
  if (heldOut) await reportHeldOut(loop, heldOutProblems(scenariosOf(parts), heldOutScenarios(heldOut)));
  await reportMismatch(loop, parts.agent.sampling);
}

function initialState(config: TrainingConfig, agent: Agent): LoopState {
  return {
    position: 0,
    optimiserSteps: 0,
    notFinite: 0,
    notFiniteInARow: 0,
    lowestReward: 0,
    lostInARow: 0,
    best: null,
    controls: initialControls(config, agent.sampling.temperature),
    pending: null,
    failedParts: [],
    notices: [],
    rewardMoments: noMoments(),
    ratioReported: false,
  };
}

async function saveFinal({ agent, savePath }: TrainParts, dir: string | undefined): Promise<string | undefined> {
  if (agent.policy.model.stub) return undefined;
  const own = dir === undefined ? undefined : pathIn(dir, "final");
  if (own !== undefined) await writeFolderAtomic(own, (temporary) => agent.save(temporary));
  if (savePath !== undefined) await agent.save(resolve(savePath));
  return own ?? (savePath === undefined ? undefined : resolve(savePath));
}

function heldOutOf(
  { agent, heldOut, environment, harness, reward }: TrainParts,
  config: TrainingConfig,
  { play, ...within }: Pick<HeldOutOptions, "scorer" | "onProgress" | "play" | "record">,
): HeldOutEvaluation | undefined {
  if (heldOut === undefined) return undefined;
  const where = heldOut instanceof Environment ? { environment: heldOut } : { environment, harness, play };
  return createHeldOut({ agent, ...where, scenarios: heldOutScenarios(heldOut), reward, config, ...within });
}

function evaluationRecord({ dir }: Loop["run"], { trajectories }: TrainingConfig): HeldOutOptions["record"] {
  if (dir === undefined || trajectories.every === 0) return undefined;
  return (of, groups, lost) => writeEvaluation(dir, of, groups, lost);
}

function heldOutScenarios(heldOut: NonNullable<TrainParts["heldOut"]>): readonly Scenario[] {
  return heldOut instanceof Environment ? heldOut.scenarios : heldOut;
}

function assertTrainable(
  { agent, environment, harness }: TrainParts,
  algorithm: Algorithm,
  config: TrainingConfig,
): void {
  const { model, capabilities } = agent.policy;
  if (scenariosOf({ environment, harness }).length === 0) {
    const who = harness ? "harness" : "environment";
    throw new StatesetError("INVALID_SCENARIO", `The ${who} has no scenarios to train on.`, {
      hint: "Give it at least one.",
    });
  }
  if (!model.stub) {
    requireTrainable(agent.policy);
    requireCapabilities(capabilities, algorithm, config, model.name);
  }
  if (model.lora && model.lora.dropout > 0) {
    throw new StatesetError(
      "INVALID_OPTION",
      `The adapter has a dropout of ${model.lora.dropout}: the policy that learns would not be the one that sampled.`,
      { hint: "Set lora.dropout to 0 for train(); trainSupervised() and trainPreference() may use it." },
    );
  }
  const temperature = config.sampling.temperature ?? agent.sampling.temperature;
  if (!(temperature > 0)) {
    throw new StatesetError(
      "INVALID_OPTION",
      "The agent samples at temperature 0: all conversations of a group would be the same.",
      { hint: "Set sampling.temperature to 1 in train()." },
    );
  }
}
