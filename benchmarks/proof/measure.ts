import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { evaluate, MultiTurnAgent, seedOf, train } from "stateset-agents";
import type { AlgorithmConfig } from "stateset-agents/algorithms";
import type { MetricName, Metrics } from "stateset-agents/telemetry";
import { estimateMean, standardDeviation } from "../../packages/stateset-agents/src/evaluation/estimate.ts";
import { type Harvesting, imitateBestOfN } from "./best-of-n.ts";
import { algorithms, baselines, clipPair, evaluationSamples, run, sampling } from "./settings.ts";
import { LetterReward, letterEnvironment } from "./task.ts";
import { writeTinyModel } from "./tiny-model.ts";

export interface Measured {
  seed: number;
  /** Mean share of right letters, on conversations sampled apart from training, with a 95% interval. */
  before: Score;
  after: Score;
  /** Share during training, by step (or by harvest). */
  curve: number[];
  updates: number;
  conversations: number;
  seconds: number;
  /** Means over the steps of what the algorithm reports. */
  metrics: Metrics;
}

export interface Score {
  mean: number;
  low: number;
  high: number;
  /** Of the mean, over the conversations. */
  standardError: number;
}

/** What one training of this part is. `rate` in place of a baseline's own, for tuning. */
export interface LettersJob {
  part: "letters";
  learner: string;
  seed: number;
  sign: 1 | -1;
  rate?: number;
}

type Learn = (
  agent: MultiTurnAgent,
  reward: LetterReward,
  seed: number,
) => Promise<Omit<Measured, "seed" | "before" | "after" | "seconds">>;

function learnerOf({ learner, rate }: LettersJob): Learn {
  if (Object.hasOwn(algorithms, learner)) return byReinforcement(algorithms[learner]!);
  if (Object.hasOwn(clipPair, learner)) {
    return byReinforcement(clipPair[learner as keyof typeof clipPair], { updatesPerRollout: 4 });
  }
  const harvesting = baselines[learner as keyof typeof baselines];
  return byBestOfN(rate === undefined ? harvesting : { ...harvesting, learningRate: rate });
}

/** Trains a fresh tiny model and measures it before and after. */
export async function measure(job: LettersJob): Promise<Measured> {
  const { seed, sign } = job;
  const learn = learnerOf(job);
  const dir = await mkdtemp(join(tmpdir(), "stateset-proof-"));
  try {
    await writeTinyModel(dir, seedOf(seed, "tiny-model"));
    // One thread: the model is so small that handing out its work would take longer than doing it.
    const agent = new MultiTurnAgent({ model: dir, sampling, threads: 1 });
    await agent.initialize();
    const before = await score(agent, seed);
    const started = performance.now();
    const learnt = await learn(agent, new LetterReward(sign), seed);
    const seconds = (performance.now() - started) / 1000;
    const after = await score(agent, seed);
    await agent.close();
    return { seed, before, after, seconds, ...learnt };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function score(agent: MultiTurnAgent, seed: number): Promise<Score> {
  const { groups } = await evaluate({
    agent,
    environment: letterEnvironment(),
    reward: new LetterReward(),
    samples: evaluationSamples,
    seed: seedOf(seed, "proof-evaluation"),
  });
  // The scenarios are the whole task, so what varies are the conversations.
  const shares = groups.flatMap((group) => group.trajectories.map(({ reward }) => reward.breakdown.share!));
  const { mean, low = mean, high = mean } = estimateMean(shares);
  return { mean, low, high, standardError: standardDeviation(shares) / Math.sqrt(shares.length) };
}

/** By reinforcement, with the settings all algorithms share. */
function byReinforcement(algorithm: AlgorithmConfig, overrides: { updatesPerRollout?: number } = {}): Learn {
  return async (agent, reward, seed) => {
    const { run: done } = await train({
      ...run,
      ...overrides,
      ...algorithm,
      agent,
      environment: letterEnvironment(),
      reward,
      seed,
      dir: false,
    });
    const last = done.metrics.at(-1)!;
    return {
      curve: filled(done.metrics.map((metrics) => metrics["part/share"])),
      updates: last.optimiserSteps ?? 0,
      // Those of refused groups (DAPO) were sampled too.
      conversations: done.metrics.reduce(
        (sum, { conversations = 0, refusedGroups = 0 }) => sum + conversations + refusedGroups * run.groupSize,
        0,
      ),
      metrics: { approxKl: meanOf(done.metrics, "approxKl"), clipFraction: meanOf(done.metrics, "clipFraction") },
    };
  };
}

/** By imitating the best of N samples. */
function byBestOfN(harvesting: Harvesting): Learn {
  return async (agent, reward, seed) => {
    const environment = letterEnvironment();
    const batchSize = run.groupsPerStep * run.groupSize;
    const { sampled, ...counts } = await imitateBestOfN(harvesting, { agent, environment, reward, seed, batchSize });
    return { curve: sampled.map((score) => reward.shareOf(score)), ...counts, metrics: {} };
  };
}

/** A step whose groups were all dropped (DAPO, once it always succeeds) has no share of its own: the last one stands. */
function filled(shares: readonly (number | undefined)[]): number[] {
  let last = Number.NaN;
  return shares.map((share) => {
    last = share ?? last;
    return last;
  });
}

export function meanOf(records: readonly Metrics[], name: MetricName): number {
  const values = records.flatMap((record) => (record[name] === undefined ? [] : [record[name]]));
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
