import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Agent } from "../agent/agent.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { createAlgorithm, defaultGroupSize } from "../algorithm/algorithms.ts";
import { Environment } from "../environment/environment.ts";
import { messageOf, StatesetError } from "../error.ts";
import { EarlyStopping, type EarlyStoppingState } from "../evaluation/early-stopping.ts";
import { defaultSampling, type Policy } from "../policy/policy.ts";
import { seedOf } from "../random.ts";
import {
  createEmitter,
  type Emitter,
  type EvaluationResult,
  type RunEnd,
  type StepMetrics,
  type TrainingWarning,
} from "./callbacks.ts";
import { writeFolderAtomic } from "./checkpoint/durable.ts";
import { assertSameModel, CheckpointStore, findCheckpoint, runDirOf } from "./checkpoint/store.ts";
import { mergeOptions, resolveConfig, type TrainingConfig, type TrainingOptions } from "./config.ts";
import { initialControls } from "./controls.ts";
import { createHeldOut, evaluationMetrics } from "./held-out.ts";
import { type Loop, type LoopState, runLoop } from "./loop.ts";
import type { RolloutSettings } from "./rollout.ts";
import { RunFiles } from "./run-files.ts";
import { finiteMetrics } from "./step-metrics.ts";
import { trackerCallbacks } from "./tracker-callbacks.ts";
import { splitOptions, type TrainOptions, type TrainParts } from "./train-options.ts";

export interface TrainResult<A extends Agent = Agent> {
  /** The agent that was given, trained: it can be talked to at once. */
  agent: A;
  run: RunSummary;
}

export interface RunSummary extends RunEnd {
  id: string;
  /** The run's folder; undefined when nothing was kept. */
  dir: string | undefined;
  /** Where the trained agent is, in Hugging Face layout; undefined when the run was interrupted or nothing was kept. */
  finalDir: string | undefined;
  /** Give this to `resumeFrom` to go on. */
  resumeFrom: string | undefined;
  config: TrainingConfig;
  /** One record a step; of a resumed run also those before. */
  metrics: StepMetrics[];
  /** The step that did best on the selection part of the held-out scenarios. */
  best: { step: number; score: number } | null;
  /** On the report part of the held-out scenarios. */
  evaluation: { before: EvaluationResult; after: EvaluationResult | undefined } | undefined;
  warnings: TrainingWarning[];
  /** The agent is a stub: nothing was learnt. */
  stub: boolean;
}

/** What a checkpoint holds beside the policy. */
interface SavedState {
  loop: LoopState;
  metricsBytes: number;
  algorithm: Record<string, number>;
  callbacks: Record<string, unknown>;
  earlyStopping: EarlyStoppingState | null;
  before: EvaluationResult | null;
}

/** What config.json holds. */
interface SavedConfig {
  version: 1;
  id: string;
  model: { name: string; parameters: number; trainableParameters: number };
  algorithm: Record<string, unknown>;
  training: TrainingConfig;
}

/**
 * Trains an agent by reinforcement on conversations with an environment and returns it, ready to be used.
 *
 * @example
 * const { agent, run } = await train({ agent, environment, reward, steps: 40 });
 * console.log(run.metrics.at(-1)?.reward, await agent.generateResponse([{ role: "user", content: "Hi" }]));
 */
export async function train<A extends Agent>(options: TrainOptions<A>): Promise<TrainResult<A>> {
  const { parts, training, algorithm: chosen } = splitOptions(options);
  const saved = parts.resumeFrom === undefined ? undefined : readSavedConfig(parts.resumeFrom);
  const algorithm = createAlgorithm((chosen ?? saved?.algorithm ?? "grpo") as Parameters<typeof createAlgorithm>[0]);

  await parts.agent.initialize();
  const { policy } = parts.agent;
  const config = resolveConfig(withSaved(training, saved, algorithm.name), {
    profile: parts.profile ?? saved?.training.profile ?? "balanced",
    model: policy.model,
  });
  assertTrainable(parts, policy, config);

  const id = saved?.id ?? parts.name ?? newRunId(algorithm.name);
  const dir = runDir(parts, id);
  const files = dir === undefined ? undefined : new RunFiles(dir);
  const store = files && new CheckpointStore<SavedState>(files.dir, config.checkpoint.keep);

  const state: LoopState = {
    step: 0,
    position: 0,
    optimiserSteps: 0,
    conversations: 0,
    notFinite: 0,
    notFiniteInARow: 0,
    best: null,
    controls: initialControls(config),
  };
  const warnings: TrainingWarning[] = [];
  const emitter: Emitter = createEmitter(
    [
      { onWarning: (warning) => void warnings.push(warning) },
      ...[parts.callbacks ?? []].flat(),
      ...trackerCallbacks(parts.trackers ?? [], (message) => {
        void emitter.warn({ step: state.step, kind: "tracker-failed", message });
      }),
    ],
    () => state.step,
  );
  const rollout = rolloutSettings(parts, config);
  const heldOutScenarios = parts.heldOut instanceof Environment ? parts.heldOut.scenarios : parts.heldOut;
  const heldOut =
    heldOutScenarios &&
    createHeldOut({
      environment: parts.heldOut instanceof Environment ? parts.heldOut : parts.environment,
      scenarios: heldOutScenarios,
      rollout,
      config,
    });
  const earlyStopping = config.earlyStopping && new EarlyStopping(config.earlyStopping);
  let before: EvaluationResult | undefined;

  // The reference is the model the run started from, so it must be taken before a checkpoint is restored.
  const needsReference = algorithm.needs.reference === true || config.kl.coefficient > 0;
  const reference = needsReference && !policy.model.stub ? await policy.reference() : undefined;
  if (algorithm.needs.values && !policy.model.stub) await policy.addValueHead(seedOf(config.seed, "value-head"));

  let resumedAfter: number | undefined;
  if (files && parts.resumeFrom !== undefined) {
    const found = findCheckpoint<SavedState>(parts.resumeFrom, (message) => {
      void emitter.warn({ step: 0, kind: "checkpoint-damaged", message });
    });
    if (found) {
      assertSameModel(found.manifest, policy.model, found.dir);
      await policy.restore(join(found.dir, "policy"));
      Object.assign(state, found.state.loop);
      algorithm.restore?.(found.state.algorithm);
      emitter.restore(found.state.callbacks);
      if (found.state.earlyStopping) earlyStopping?.restore(found.state.earlyStopping);
      before = found.state.before ?? undefined;
    } else {
      const message = `${files.dir} holds no checkpoint yet: the run starts again from its first step.`;
      await emitter.warn({ step: 0, kind: "restarted", message });
    }
    resumedAfter = state.step;
    files.rewind(found?.state.metricsBytes ?? 0, state.step);
    store!.dropAfter(state.step);
  }
  const { name, parameters, trainableParameters } = policy.model;
  const savedConfig: SavedConfig = {
    version: 1,
    id,
    model: { name, parameters, trainableParameters },
    algorithm: { ...algorithm.options, algorithm: algorithm.name },
    training: config,
  };
  files?.writeConfig(savedConfig);
  const { options: algorithmOptions } = algorithm;
  await emitter.emit("onStart", {
    id,
    dir,
    config,
    algorithm: { name: algorithm.name, options: algorithmOptions },
    resumedAfter,
  });

  const loop: Loop = {
    policy,
    algorithm,
    learner: { policy, algorithm, reference, tokenBudget: config.tokenBudget, recompute: config.recompute },
    config,
    rollout,
    replyTokens: replyTokens(parts.agent, config),
    state,
    emitter,
    files,
    heldOut,
    earlyStopping,
    signal: parts.signal,
    history: files && resumedAfter !== undefined ? files.readMetrics() : [],
    async save(best) {
      if (!files || !store || policy.model.stub) return;
      const checkpoint = await store.save(
        policy,
        state.step,
        {
          loop: state,
          metricsBytes: files.syncMetrics(),
          algorithm: algorithm.state?.() ?? {},
          callbacks: emitter.states(),
          earlyStopping: earlyStopping?.state() ?? null,
          before: before ?? null,
        },
        best,
      );
      await emitter.emit("onCheckpoint", { step: state.step, dir: checkpoint, best });
    },
  };

  let end: RunEnd;
  let after: EvaluationResult | undefined;
  let finalDir: string | undefined;
  try {
    if (heldOut && before === undefined) {
      before = await heldOut.evaluate(0, "report");
      await emitter.emit("onEvaluation", before);
      const record = finiteMetrics(0, evaluationMetrics(before));
      loop.history.push(record);
      files?.appendMetrics(record);
    }
    end = await runLoop(loop);
    if (end.status !== "interrupted") {
      const best = store?.best();
      if (config.evaluation.restoreBest && best !== undefined && state.best && state.best.step < state.step) {
        await policy.restore(join(best, "policy"));
      }
      if (heldOut) {
        after = await heldOut.evaluate(end.steps, "report");
        await emitter.emit("onEvaluation", after);
      }
      if (!policy.model.stub) finalDir = await saveFinal(parts.agent, dir, parts.savePath);
    }
  } catch (error) {
    await emitter.emit("onEnd", { status: "failed", steps: state.step, reason: messageOf(error) });
    throw error;
  }
  await emitter.emit("onEnd", end);
  return {
    agent: parts.agent,
    run: {
      ...end,
      id,
      dir,
      finalDir,
      resumeFrom: dir,
      config,
      metrics: loop.history,
      best: state.best,
      evaluation: before && { before, after },
      warnings,
      stub: policy.model.stub,
    },
  };
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

function assertTrainable({ agent, environment }: TrainParts, policy: Policy, config: TrainingConfig): void {
  if (environment.scenarios.length === 0) {
    throw new StatesetError("INVALID_SCENARIO", "The environment has no scenarios to train on.", {
      hint: "Give it at least one.",
    });
  }
  if (!policy.model.stub && policy.model.trainableParameters === 0) {
    throw new StatesetError("NOT_TRAINABLE", `Nothing in ${policy.model.name} is trainable.`);
  }
  const temperature = config.sampling.temperature ?? agent.startConversation().temperature;
  if (!(temperature > 0)) {
    throw new StatesetError(
      "INVALID_OPTION",
      "The agent samples at temperature 0: all conversations would be the same.",
      {
        hint: "Set sampling.temperature to 1 in train().",
      },
    );
  }
}

/** Tokens a reply may have: the run's limit, else the agent's. */
function replyTokens(agent: Agent, config: TrainingConfig): number {
  const own = agent instanceof MultiTurnAgent ? agent.options.sampling.maxTokens : defaultSampling.maxTokens;
  return config.sampling.maxTokens ?? own;
}

/** The options of a resumed run under those that are given now; the algorithm's usual group size under both. */
function withSaved(given: TrainingOptions, saved: SavedConfig | undefined, algorithm: string): TrainingOptions {
  if (!saved) return { groupSize: defaultGroupSize(algorithm), ...given };
  const { profile: _, ...options } = saved.training;
  return mergeOptions(given, options);
}

function readSavedConfig(resumeFrom: string): SavedConfig | undefined {
  const path = join(runDirOf(resumeFrom), "config.json");
  if (!existsSync(path)) {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", `There is no run at ${runDirOf(resumeFrom)}.`, {
      hint: "Give a run's folder (it holds config.json) or one of its checkpoints.",
    });
  }
  try {
    return JSON.parse(readFileSync(path, "utf8")) as SavedConfig;
  } catch (error) {
    throw new StatesetError("CHECKPOINT_INVALID", `${path} cannot be read: ${messageOf(error)}.`, { cause: error });
  }
}

function runDir({ dir, resumeFrom }: TrainParts, id: string): string | undefined {
  if (resumeFrom !== undefined) {
    const own = runDirOf(resumeFrom);
    if (dir !== undefined && (dir === false || resolve(dir) !== own)) {
      throw new StatesetError("INVALID_OPTION", `A run is resumed in its own folder, ${own}, not in ${dir}.`, {
        hint: "Leave `dir` out.",
      });
    }
    return own;
  }
  if (dir === false) return undefined;
  const own = resolve(dir ?? join("runs", id));
  if (existsSync(join(own, "config.json"))) {
    throw new StatesetError("INVALID_OPTION", `${own} already holds a run.`, {
      hint: "Choose another `dir` or `name`, or go on with it by `resumeFrom`.",
    });
  }
  return own;
}

async function saveFinal(agent: Agent, dir: string | undefined, savePath: string | undefined) {
  const own = dir === undefined ? undefined : join(dir, "final");
  if (own !== undefined) await writeFolderAtomic(own, (temporary) => agent.save(temporary));
  if (savePath !== undefined) await agent.save(resolve(savePath));
  return own ?? (savePath === undefined ? undefined : resolve(savePath));
}

function newRunId(algorithm: string): string {
  const time = new Date().toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-");
  return `${algorithm}-${time}`;
}
