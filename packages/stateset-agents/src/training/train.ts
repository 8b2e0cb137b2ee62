import { join, resolve } from "node:path";
import { isAbort } from "../abort.ts";
import type { Agent } from "../agent/agent.ts";
import type { Algorithm } from "../algorithm/algorithm.ts";
import { writeFolderAtomic } from "../durable.ts";
import { Environment } from "../environment/environment.ts";
import { messageOf, StatesetError } from "../error.ts";
import { EarlyStopping } from "../evaluation/early-stopping.ts";
import { exclusively } from "../learning/exclusive.ts";
import { openLearner, wantsReference } from "../learning/learner.ts";
import { requireTrainable } from "../learning/trainable.ts";
import { environmentRollout } from "../rollout/rollout.ts";
import { CheckpointStore } from "../run/checkpoint/store.ts";
import type { EvaluationResult, RunEnd, StepMetrics, TrainingWarning } from "../run/events.ts";
import { RunFiles } from "../run/run-files.ts";
import { createEmitter } from "./callbacks.ts";
import { requireCapabilities } from "./capabilities.ts";
import type { TrainingConfig } from "./config.ts";
import { initialControls } from "./controls.ts";
import { reportEvaluation, reportMismatch, reportUnusual } from "./failures.ts";
import { createHeldOut, evaluationMetrics, type HeldOutEvaluation } from "./held-out.ts";
import { type Loop, type LoopState, runLoop } from "./loop.ts";
import { type ResolvedRun, resolveRun } from "./resolve-run.ts";
import { resumeLoop, type SavedState, saveLoop } from "./saved-loop.ts";
import { newRunId, runDir, savedConfig } from "./saved-run.ts";
import { ScenarioOrder } from "./scenario-order.ts";
import { finiteMetrics } from "./step-metrics.ts";
import { trackerCallbacks } from "./tracker-callbacks.ts";
import type { TrainOptions, TrainParts } from "./train-options.ts";

export interface TrainResult<A extends Agent = Agent> {
  /** The agent that was given, trained: it can be talked to at once. */
  agent: A;
  run: RunSummary;
}

export interface RunSummary extends RunEnd {
  id: string;
  /** The run's folder, which `resumeFrom` takes; undefined when nothing was kept. */
  dir: string | undefined;
  /** Where the trained agent is, in Hugging Face layout; undefined when the run was interrupted or nothing was kept. */
  finalDir: string | undefined;
  config: TrainingConfig;
  /** One record a step; of a resumed run also those before. Step 0 holds the evaluation before training. */
  metrics: StepMetrics[];
  /** The step that did best on the selection part of the held-out scenarios. */
  best: { step: number; score: number } | null;
  /** On the report part of the held-out scenarios. */
  evaluation: { before: EvaluationResult; after: EvaluationResult | undefined } | undefined;
  warnings: TrainingWarning[];
  /** The agent is a stub: nothing was learnt. */
  stub: boolean;
}

/**
 * Trains an agent by reinforcement on conversations with an environment and returns it, ready to be used.
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
  const { parts, config } = resolved;
  const { id, loop, warnings } = await openRun(resolved);
  let end: RunEnd;
  let after: EvaluationResult | undefined;
  let finalDir: string | undefined;
  try {
    await reportUnusual(loop);
    await reportMismatch(loop, parts.agent.sampling);
    await evaluateBefore(loop);
    end = await runLoop(loop);
    await restoreBest(loop);
    after = await evaluateAfter(loop);
    finalDir = await saveFinal(parts, loop.files?.dir);
  } catch (error) {
    if (!loop.signal?.aborted || !isAbort(error)) {
      await loop.emitter.emit("onEnd", { status: "failed", steps: loop.state.step, reason: messageOf(error) });
      throw error;
    }
    if (loop.savedStep !== loop.state.step) await saveLoop(loop, false);
    end = { status: "interrupted", steps: loop.state.step, reason: "Stopped on request." };
  }
  await loop.emitter.emit("onEnd", end);
  return {
    agent: parts.agent,
    run: {
      ...end,
      id,
      dir: loop.files?.dir,
      finalDir,
      config,
      metrics: loop.records,
      best: loop.state.best,
      evaluation: loop.before && { before: loop.before, after },
      warnings,
      stub: loop.learner.policy.model.stub,
    },
  };
}

async function openRun({ parts, config, algorithm, saved, changes }: ResolvedRun) {
  const { agent, environment, reward, resumeFrom } = parts;
  const { policy } = agent;
  const id = saved?.id ?? parts.name ?? newRunId(algorithm.name);
  const dir = runDir(parts, id);
  const files = dir === undefined ? undefined : new RunFiles(dir);
  const state = initialState(config, agent);
  const warnings: TrainingWarning[] = [];
  const callbacks = [parts.callbacks ?? []].flat();
  const emitter = createEmitter(
    [{ onWarning: (warning) => void warnings.push(warning) }, ...callbacks],
    () => state.step,
    parts.signal,
  );
  const trackers = trackerCallbacks(parts.trackers ?? [], (message) => {
    void emitter.warn({ step: state.step, kind: "tracker-failed", message });
  });
  if (trackers) emitter.add(trackers);
  const { kl } = config;
  const keepsReference = wantsReference(algorithm, kl.coefficient) || callbacks.some((callback) => callback.adjustsKl);
  if (kl.renewEvery > 0 && !keepsReference) {
    throw new StatesetError("INVALID_OPTION", "kl.renewEvery has nothing to renew: the run keeps no reference.", {
      hint: "Set kl.coefficient, or the algorithm's beta, above 0.",
    });
  }
  // A checkpoint brings its own.
  const of = kl.reference === "base" ? "base" : "present";
  const reference = keepsReference && !policy.model.stub ? await policy.reference(of) : undefined;

  const loop: Loop = {
    learner: await openLearner({ policy, algorithm, reference, settings: config }),
    config,
    rollout: environmentRollout({ agent, environment, reward, settings: config, learn: true }),
    scenarios: new ScenarioOrder(environment.scenarios, config.seed),
    replyTokens: config.sampling.maxTokens ?? agent.sampling.maxTokens,
    state,
    emitter,
    files,
    store: files && new CheckpointStore<SavedState>(files.dir, config.checkpoint.keep),
    heldOut: heldOutOf(parts, config),
    before: undefined,
    earlyStopping: config.earlyStopping && new EarlyStopping(config.earlyStopping),
    signal: parts.signal,
    records: [],
    savedStep: undefined,
    ratioReported: false,
  };
  if (resumeFrom !== undefined) await resumeLoop(loop, resumeFrom);
  if (policy.model.stub) {
    const message = "The agent is a stub: conversations are played and rewarded, but nothing is learnt or saved.";
    await emitter.warn({ step: 0, kind: "stub", message });
  }
  files?.writeConfig(savedConfig(id, policy.model, algorithm, config));
  const resumedAfter = resumeFrom === undefined ? undefined : state.step;
  const { name, options } = algorithm;
  await emitter.emit("onStart", { id, dir, config, algorithm: { name, options }, resumedAfter });
  if (changes !== undefined) await emitter.warn({ step: state.step, kind: "options-changed", message: changes });
  return { id, loop, warnings };
}

function initialState(config: TrainingConfig, agent: Agent): LoopState {
  return {
    step: 0,
    position: 0,
    optimiserSteps: 0,
    conversations: 0,
    mostReplies: 1,
    notFinite: 0,
    notFiniteInARow: 0,
    lostInARow: 0,
    best: null,
    stopped: null,
    controls: initialControls(config, agent.sampling.temperature),
    pending: null,
  };
}

async function evaluateBefore(loop: Loop): Promise<void> {
  const { heldOut, emitter, records, files, signal } = loop;
  if (!heldOut || loop.before) return;
  loop.before = await heldOut.evaluate(0, "report", signal);
  await reportEvaluation(emitter, loop.before);
  const record = finiteMetrics(0, evaluationMetrics(loop.before));
  records.push(record);
  files?.appendMetrics(record);
}

async function evaluateAfter({ heldOut, emitter, state, signal }: Loop): Promise<EvaluationResult | undefined> {
  const after = await heldOut?.evaluate(state.step, "report", signal);
  if (after) await reportEvaluation(emitter, after);
  return after;
}

async function restoreBest({ config, state, learner, store }: Loop): Promise<void> {
  const best = store?.best();
  if (!config.evaluation.restoreBest || best === undefined || !state.best || state.best.step >= state.step) return;
  await learner.policy.restore(join(best, "policy"));
}

async function saveFinal({ agent, savePath }: TrainParts, dir: string | undefined): Promise<string | undefined> {
  if (agent.policy.model.stub) return undefined;
  const own = dir === undefined ? undefined : join(dir, "final");
  if (own !== undefined) await writeFolderAtomic(own, (temporary) => agent.save(temporary));
  if (savePath !== undefined) await agent.save(resolve(savePath));
  return own ?? (savePath === undefined ? undefined : resolve(savePath));
}

function heldOutOf(
  { agent, heldOut, environment, reward }: TrainParts,
  config: TrainingConfig,
): HeldOutEvaluation | undefined {
  if (heldOut === undefined) return undefined;
  const own = heldOut instanceof Environment;
  const [where, scenarios] = own ? [heldOut, heldOut.scenarios] : [environment, heldOut];
  return createHeldOut({ agent, environment: where, scenarios, reward, config });
}

function assertTrainable({ agent, environment }: TrainParts, algorithm: Algorithm, config: TrainingConfig): void {
  const { model, capabilities } = agent.policy;
  if (environment.scenarios.length === 0) {
    throw new StatesetError("INVALID_SCENARIO", "The environment has no scenarios to train on.", {
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
