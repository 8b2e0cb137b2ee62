/** Runs on the torch engine, against the embedded engine on the conversations they learnt from. Needs STATESET_PYTHON. */
import { starterModelPath } from "@stateset-agents/starter-model";
import { afterEach, describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../../src/agent/multi-turn-agent.ts";
import {
  type AlgorithmConfig,
  type AlgorithmName,
  algorithmNames,
  createAlgorithm,
} from "../../src/algorithm/algorithms.ts";
import type { TrajectoryGroup } from "../../src/conversation/trajectory.ts";
import { learnFrom } from "../../src/learning/learn-from.ts";
import { loadNativePolicy } from "../../src/policy/native/load.ts";
import { defaultSampling, type LoraOptions, type Policy } from "../../src/policy/policy.ts";
import { rewardFunction } from "../../src/reward/define-reward.ts";
import { tableEnvironment } from "../../src/test-support/table-training.ts";
import { train } from "../../src/training/train.ts";
import { storiesDir, temporaryFolder } from "../tiny-model.ts";
import { python, TorchWorkers } from "../torch-workers.ts";

const lora: LoraOptions = { rank: 4, alpha: 8, dropout: 0, targetModules: "all-linear" };
const own: Partial<Record<AlgorithmName, object>> = { vapo: { valueWarmupSteps: 1 }, trpo: { cgSteps: 2 } };
/** Two passes see a ratio that is not 1; these have none, or look for a step that bounds it by themselves. */
const onePass: readonly AlgorithmName[] = ["a2c", "reinforce", "trpo"];
const replyTokens = 6;

const opened: Policy[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((policy) => policy.close()));
});

const reward = rewardFunction({ name: "letters" }, ({ turns }) => {
  const said = turns.filter(({ role }) => role === "assistant").map(({ content }) => content);
  return said.join("").split("e").length - 1;
});

/** Trains one policy, and has the other learn from what the first recorded. Loss, norm of the gradient and KL of both, step by step. */
async function curves([samples, follows]: readonly [Policy, Policy], name: AlgorithmName, steps: number) {
  const algorithm = () => createAlgorithm({ algorithm: name, ...own[name] } as AlgorithmConfig);
  const settings = {
    // All weights at the adapter's rate: the model is gone after ten steps, and the clip multiplies what was rounding.
    learningRate: samples.model.lora ? 1e-3 : 2e-4,
    updatesPerRollout: onePass.includes(name) ? 1 : 2,
    kl: { coefficient: 0.05 },
    entropyBonus: 0.01,
  } as const;
  const recorded: TrajectoryGroup[][] = [];
  const { run } = await train({
    ...settings,
    agent: new MultiTurnAgent({ policy: samples, sampling: { maxTokens: replyTokens } }),
    environment: tableEnvironment(),
    reward,
    algorithm: algorithm(),
    dir: false,
    steps,
    groupsPerStep: 2,
    groupSize: 4,
    maxTurns: 2,
    recall: false,
    schedule: "constant",
    warmup: 0,
    callbacks: { onRollouts: ({ groups }) => void recorded.push(structuredClone(groups) as TrajectoryGroup[]) },
  });
  expect(run).toMatchObject({ status: "finished", steps, warnings: [] });

  const same = { algorithm: algorithm(), reference: await follows.reference(), steps };
  const limits = { replyTokens, maxTokens: 2 * replyTokens };
  const followed = [];
  for (const [i, groups] of recorded.entries()) {
    const { metrics } = await learnFrom(follows, groups, { ...settings, ...limits, ...same, step: i + 1 });
    followed.push(metrics);
  }
  return { run: run.metrics, followed };
}

/** Each point within a thousandth of its height, or of a tenth of the curve's: a loss crosses zero. */
function expectSame({ run, followed }: Awaited<ReturnType<typeof curves>>): void {
  for (const metric of ["loss", "gradNorm", "entropy", "kl"] as const) {
    const [one, other] = [run, followed].map((of) => of.map((metrics) => metrics[metric]!));
    const height = Math.max(...other!.map(Math.abs));
    for (const [i, wanted] of other!.entries()) {
      const apart = Math.abs(one![i]! - wanted) / Math.max(Math.abs(wanted), height / 10);
      expect(apart, `${metric} of step ${i + 1}: ${one![i]}, not ${wanted}`).toBeLessThan(1e-3);
    }
  }
  for (const { gradNorm } of followed) expect(gradNorm).toBeGreaterThan(0);
}

describe.skipIf(!python)("learning on the torch engine", () => {
  const workers = new TorchWorkers();
  const pairs = new TorchWorkers(2);

  /** Both with the same weights: adapters begin with random numbers, each engine with its own. */
  async function openBoth(adapter?: LoraOptions, from = workers, dir = storiesDir): Promise<readonly [Policy, Policy]> {
    const native = await loadNativePolicy({ dir, lora: adapter, precision: "f32" });
    opened.push(native);
    const torch = await from.open({ dir, lora: adapter });
    opened.push(torch);
    const start = temporaryFolder();
    await native.snapshot(start);
    await torch.restore(start);
    return [torch, native];
  }

  it.each(algorithmNames)("%s trains for three steps as on the embedded engine", async (name) => {
    expectSame(await curves(await openBoth(lora), name, 3));
  });

  it.each([
    ["all weights", 1, undefined, storiesDir],
    ["an adapter", 1, lora, storiesDir],
    ["an adapter of the starter model", 1, lora, starterModelPath],
    ["all weights", 2, undefined, storiesDir],
    ["an adapter", 2, lora, storiesDir],
  ])(
    "learns for twenty steps of GRPO what the embedded engine learns with %s, on %i rank(s)",
    async (_, ranks, adapter, dir) => {
      const [torch, native] = await openBoth(adapter, ranks === 2 ? pairs : workers, dir);
      // The embedded engine samples here, the torch engine above.
      expectSame(await curves([native, torch], "grpo", 20));
      const request = {
        tokens: Int32Array.of(1, 403, 9),
        sampling: { ...defaultSampling, temperature: 0, maxTokens: 24 },
        seed: 1,
      };
      const [[said], [wanted]] = [await torch.sample([request]), await native.sample([request])];
      expect([...said!.tokens]).toEqual([...wanted!.tokens]);
    },
  );
});
