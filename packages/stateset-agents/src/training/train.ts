import { join, resolve } from "node:path";
import type { Agent } from "../agent/agent.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { Algorithm } from "../algorithm/algorithm.ts";
import { writeFolderAtomic } from "../durable.ts";
import { Environment } from "../environment/environment.ts";
import { messageOf, StatesetError } from "../error.ts";
import { EarlyStopping } from "../evaluation/early-stopping.ts";
import { defaultSampling, type Policy } from "../policy/policy.ts";
import { seedOf } from "../random.ts";
import type { RolloutSettings } from "../rollout/rollout.ts";
import { assertSameModel, CheckpointStore, findCheckpoint } from "../run/checkpoint/store.ts";
import type { EvaluationResult, RunEnd, StepMetrics, TrainingWarning } from "../run/events.ts";
import { RunFiles } from "../run/run-files.ts";
import { createEmitter, type Emitter } from "./callbacks.ts";
import type { TrainingConfig } from "./config.ts";
import { initialControls } from "./controls.ts";
import { reportEvaluation, reportUnusual } from "./failures.ts";
import { createHeldOut, evaluationMetrics, type HeldOutEvaluation } from "./held-out.ts";
import { type Loop, runLoop } from "./loop.ts";
import { resolveRun } from "./resolve-run.ts";
import { newRunId, runDir, type SavedConfig, type SavedState } from "./saved-run.ts";
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

/** A run that is ready to go on, with what only its end needs. */
interface Run {
  loop: Loop;
  id: string;
  files: RunFiles | undefined;
  store: CheckpointStore<SavedState> | undefined;
  before: EvaluationResult | undefined;
  warnings: TrainingWarning[];
}

/**
 * Trains an agent by reinforcement on conversations with an environment and returns it, ready to be used.
 *
 * @example
 * const { agent, run } = await train({ agent, environment, reward, steps: 40 });
 * console.log(run.metrics.at(-1)?.reward, await agent.generateResponse([{ role: "user", content: "Hi" }]));
 */
export async function train<A extends Agent>(options: TrainOptions<A>): Promise<TrainResult<A>> {
  const { parts, algorithm, config, saved, changes } = await resolveRun(options);
  assertTrainable(parts, config);

  const run = await openRun(parts, config, algorithm, saved?.id ?? parts.name ?? newRunId(algorithm.name));
  const { loop } = run;
  if (changes !== undefined)
    await loop.emitter.warn({ step: loop.state.step, kind: "options-changed", message: changes });
  await reportUnusual(loop);
  let end: RunEnd;
  let after: EvaluationResult | undefined;
  let finalDir: string | undefined;
  try {
    await evaluateBefore(run);
    end = await runLoop(loop);
    if (end.status !== "interrupted") {
      await restoreBest(run);
      after = await loop.heldOut?.evaluate(end.steps, "report");
      if (after) await reportEvaluation(loop.emitter, after);
      finalDir = await saveFinal(parts, run.files?.dir);
    }
  } catch (error) {
    await loop.emitter.emit("onEnd", { status: "failed", steps: loop.state.step, reason: messageOf(error) });
    throw error;
  }
  await loop.emitter.emit("onEnd", end);
  return {
    agent: parts.agent,
    run: {
      ...end,
      id: run.id,
      dir: run.files?.dir,
      finalDir,
      config,
      metrics: loop.history,
      best: loop.state.best,
      evaluation: run.before && { before: run.before, after },
      warnings: run.warnings,
      stub: loop.policy.model.stub,
    },
  };
}

async function openRun(parts: TrainParts, config: TrainingConfig, algorithm: Algorithm, id: string): Promise<Run> {
  const { policy } = parts.agent;
  const dir = runDir(parts, id);
  const files = dir === undefined ? undefined : new RunFiles(dir);
  const store = files && new CheckpointStore<SavedState>(files.dir, config.checkpoint.keep);
  const warnings: TrainingWarning[] = [];
  const callbacks = [parts.callbacks ?? []].flat();
  const emitter: Emitter = createEmitter(
    [
      { onWarning: (warning) => void warnings.push(warning) },
      ...callbacks,
      ...trackerCallbacks(parts.trackers ?? [], (message) => {
        void emitter.warn({ step: loop.state.step, kind: "tracker-failed", message });
      }),
    ],
    () => loop.state.step,
  );
  // The reference is the model the run started from, not one that an earlier run on the same policy did; a checkpoint brings its own.
  const wantsReference =
    algorithm.needs.reference || config.kl.coefficient > 0 || callbacks.some((callback) => callback.adjustsKl);
  if (config.kl.renewEvery > 0) assertRenewable(policy, wantsReference === true);
  const renew = parts.resumeFrom === undefined;
  const reference = wantsReference && !policy.model.stub ? await policy.reference({ renew }) : undefined;
  if (algorithm.needs.values && !policy.model.stub) await policy.addValueHead(seedOf(config.seed, "value-head"));

  const rollout = rolloutSettings(parts, config);
  const loop: Loop = {
    policy,
    algorithm,
    learner: { policy, algorithm, reference, tokenBudget: config.tokenBudget, recompute: config.recompute },
    config,
    rollout,
    replyTokens: replyTokens(parts.agent, config),
    state: {
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
      controls: initialControls(config, parts.agent.startConversation().temperature),
    },
    emitter,
    files,
    heldOut: heldOutOf(parts, rollout, config),
    earlyStopping: config.earlyStopping && new EarlyStopping(config.earlyStopping),
    signal: parts.signal,
    history: [],
    async save(best) {
      if (!files || !store || policy.model.stub) return;
      const state: SavedState = {
        loop: loop.state,
        metricsBytes: files.syncMetrics(),
        algorithm: algorithm.state?.() ?? {},
        callbacks: emitter.states(),
        earlyStopping: loop.earlyStopping?.state() ?? null,
        before: run.before ?? null,
      };
      const checkpoint = await store.save(policy, loop.state.step, state, best);
      await emitter.emit("onCheckpoint", { step: loop.state.step, dir: checkpoint, best });
    },
  };
  const run: Run = { loop, id, files, store, before: undefined, warnings };
  if (parts.resumeFrom !== undefined) await resume(run, parts.resumeFrom);
  if (policy.model.stub) {
    const message = "The agent is a stub: conversations are played and rewarded, but nothing is learnt or saved.";
    await emitter.warn({ step: 0, kind: "stub", message });
  }
  const { name, parameters, trainableParameters } = policy.model;
  const saved: SavedConfig = {
    version: 1,
    id,
    model: { name, parameters, trainableParameters },
    algorithm: { ...algorithm.options, algorithm: algorithm.name },
    training: config,
  };
  files?.writeConfig(saved);
  await emitter.emit("onStart", {
    id,
    dir,
    config,
    algorithm: { name: algorithm.name, options: algorithm.options },
    resumedAfter: parts.resumeFrom === undefined ? undefined : loop.state.step,
  });
  return run;
}

/** Puts everything back to where the newest intact checkpoint left it; without one, to the beginning. */
async function resume(run: Run, resumeFrom: string): Promise<void> {
  const { loop, files, store } = run;
  const { policy, emitter, state } = loop;
  files!.settle();
  const damaged: string[] = [];
  const found = findCheckpoint<SavedState>(resumeFrom, (message) => damaged.push(message));
  for (const message of damaged) await emitter.warn({ step: 0, kind: "checkpoint-damaged", message });
  if (found) {
    assertSameModel(found.manifest, policy.model, found.dir);
    await policy.restore(join(found.dir, "policy"));
    Object.assign(state, found.state.loop);
    loop.algorithm.restore?.(found.state.algorithm);
    emitter.restore(found.state.callbacks);
    if (found.state.earlyStopping) loop.earlyStopping?.restore(found.state.earlyStopping);
    run.before = found.state.before ?? undefined;
  } else {
    const message = `${files!.dir} holds no checkpoint yet: the run starts again from its first step.`;
    await emitter.warn({ step: 0, kind: "restarted", message });
  }
  files!.rewind(found?.state.metricsBytes ?? 0, state.step);
  store!.repair(state.step, state.best?.step);
  loop.history.push(...files!.readMetrics());
}

async function evaluateBefore(run: Run): Promise<void> {
  const { heldOut, emitter, history } = run.loop;
  if (!heldOut || run.before) return;
  run.before = await heldOut.evaluate(0, "report");
  await reportEvaluation(emitter, run.before);
  const record = finiteMetrics(0, evaluationMetrics(run.before));
  history.push(record);
  run.files?.appendMetrics(record);
}

async function restoreBest({ loop: { config, state, policy }, store }: Run): Promise<void> {
  const best = store?.best();
  if (!config.evaluation.restoreBest || best === undefined || !state.best || state.best.step >= state.step) return;
  await policy.restore(join(best, "policy"));
}

async function saveFinal({ agent, savePath }: TrainParts, dir: string | undefined): Promise<string | undefined> {
  if (agent.policy.model.stub) return undefined;
  const own = dir === undefined ? undefined : join(dir, "final");
  if (own !== undefined) await writeFolderAtomic(own, (temporary) => agent.save(temporary));
  if (savePath !== undefined) await agent.save(resolve(savePath));
  return own ?? (savePath === undefined ? undefined : resolve(savePath));
}

function heldOutOf(
  { heldOut, environment }: TrainParts,
  rollout: RolloutSettings,
  config: TrainingConfig,
): HeldOutEvaluation | undefined {
  if (heldOut === undefined) return undefined;
  const own = heldOut instanceof Environment;
  return createHeldOut({
    environment: own ? heldOut : environment,
    scenarios: own ? heldOut.scenarios : heldOut,
    rollout,
    config,
  });
}

function rolloutSettings({ agent, environment, reward }: TrainParts, config: TrainingConfig): RolloutSettings {
  return {
    agent,
    environment,
    reward,
    temperature: config.sampling.temperature,
    maxTokens: config.sampling.maxTokens,
    maxTurns: config.maxTurns,
    concurrency: config.concurrency,
    environmentTimeoutMs: config.timeouts.environmentMs,
    rewardTimeoutMs: config.timeouts.rewardMs,
    learn: true,
  };
}

function assertTrainable({ agent, environment }: TrainParts, config: TrainingConfig): void {
  const { model }: Policy = agent.policy;
  if (environment.scenarios.length === 0) {
    throw new StatesetError("INVALID_SCENARIO", "The environment has no scenarios to train on.", {
      hint: "Give it at least one.",
    });
  }
  if (!model.stub && model.trainableParameters === 0) {
    throw new StatesetError("NOT_TRAINABLE", `Nothing in ${model.name} is trainable.`);
  }
  const temperature = config.sampling.temperature ?? agent.startConversation().temperature;
  if (!(temperature > 0)) {
    throw new StatesetError(
      "INVALID_OPTION",
      "The agent samples at temperature 0: all conversations of a group would be the same.",
      { hint: "Set sampling.temperature to 1 in train()." },
    );
  }
}

function assertRenewable({ model }: Policy, wantsReference: boolean): void {
  const why = model.lora ? "with LoRA the reference is the base model" : "the run keeps no reference";
  if (wantsReference && !model.lora) return;
  throw new StatesetError("INVALID_OPTION", `kl.renewEvery has nothing to renew: ${why}.`, {
    hint: model.lora ? "Leave it out, or train all weights." : "Set kl.coefficient, or the algorithm's beta, above 0.",
  });
}

/** Tokens a reply may have: the run's limit, else the agent's. */
function replyTokens(agent: Agent, config: TrainingConfig): number {
  const own = agent instanceof MultiTurnAgent ? agent.options.sampling.maxTokens : defaultSampling.maxTokens;
  return config.sampling.maxTokens ?? own;
}
