/** What a run will need, worked out before it starts: memory from the model's shape, time from a short measurement. */
import { join } from "node:path";
import { buildTokenTree } from "../conversation/token-tree.ts";
import { availableMemory, parameterCount } from "../policy/native/memory.ts";
import { parseModelConfig } from "../policy/native/model-config.ts";
import { readJsonObject } from "../policy/tokenizer/model-json.ts";
import type { Project } from "../project/build-project.ts";
import { seedOf } from "../random.ts";
import { emptyReport } from "../rollout/report.ts";
import { environmentRollout, sampleGroups } from "../rollout/rollout.ts";
import type { TrainingConfig } from "../training/config.ts";

export interface MemoryPlan {
  parameters: number;
  weights: number;
  /** Gradients and AdamW's two moments of what is trained. */
  optimiser: number;
  /** The frozen copy that a KL penalty or algorithm needs; adapters need none. */
  reference: number;
  /** What one forward pass of `tokenBudget` tokens keeps for the backward pass. */
  activations: number;
  total: number;
  available: number;
}

export interface ModelShape {
  parameters: number;
  layers: number;
  hiddenSize: number;
  /** Of the feed-forward block. */
  inter: number;
}

/** Reads the shape of a model folder without its weights. */
export async function readShape(dir: string): Promise<ModelShape> {
  const json = await readJsonObject(dir, "config.json");
  const { engine } = parseModelConfig(json ?? {}, join(dir, "config.json"));
  return { parameters: parameterCount(engine), layers: engine.layers, hiddenSize: engine.hidden, inter: engine.inter };
}

/** All float32. Activations per token and layer: about 10 vectors of the hidden size and 3 of the feed-forward block. */
export function planMemory(
  shape: ModelShape,
  options: { trainable: number; reference: boolean; tokenBudget: number; recompute: boolean },
): MemoryPlan {
  const { parameters, layers, hiddenSize, inter } = shape;
  const weights = 4 * parameters;
  const optimiser = 12 * options.trainable;
  const reference = options.reference && options.trainable === parameters ? weights : 0;
  const perLayer = options.recompute ? hiddenSize : 10 * hiddenSize + 3 * inter;
  const activations = 4 * options.tokenBudget * layers * perLayer;
  return {
    parameters,
    weights,
    optimiser,
    reference,
    activations,
    total: weights + optimiser + reference + activations,
    available: availableMemory(),
  };
}

export interface TimePlan {
  /** Measured on one group. */
  tokensPerSecond: number;
  tokensPerReply: number;
  rolloutMsPerStep: number;
  updateMsPerStep: number;
  totalMs: number;
}

/** Plays one group and scores it once. Sampling whole steps batches more groups together, so this is rather too long than too short. */
export async function planTime(project: Project, config: TrainingConfig): Promise<TimePlan> {
  const scenario = project.environment.scenarios[0]!;
  const report = emptyReport();
  const startedAt = performance.now();
  const rollout = environmentRollout({ ...project, settings: config, learn: true });
  const request = { id: "plan", scenario, size: config.groupSize, seed: seedOf(config.seed, "plan") };
  const groups = await sampleGroups(rollout, [request], { report, minimum: 1 });
  const sampledAt = performance.now();
  const chains = groups.flatMap((group) => group.trajectories.flatMap((one) => one.chains));
  if (chains.length > 0) {
    const { tree } = buildTokenTree(chains);
    (await project.agent.policy.forward(tree, { grad: false })).release();
  }
  const scoredMs = performance.now() - sampledAt;
  const groupsPerStep = config.groupsPerStep * config.accumulation;
  const rolloutMsPerStep = (sampledAt - startedAt) * groupsPerStep;
  // A backward pass costs about two forward passes.
  const updateMsPerStep = 3 * scoredMs * groupsPerStep * config.updatesPerRollout;
  return {
    tokensPerSecond: report.sampledTokens / ((sampledAt - startedAt) / 1000),
    tokensPerReply: report.sampledTokens / Math.max(1, report.replies),
    rolloutMsPerStep,
    updateMsPerStep,
    totalMs: config.steps * (rolloutMsPerStep + updateMsPerStep),
  };
}
