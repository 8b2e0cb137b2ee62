/** The numbers beside each token in a run's files are those that the loss was given, to the bit. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Algorithm, LossSequence } from "../algorithm/algorithm.ts";
import { type AlgorithmConfig, createAlgorithm } from "../algorithm/algorithms.ts";
import { learnPlaces } from "../conversation/learn-tokens.ts";
import type { TokenChain, TrajectoryGroup } from "../conversation/trajectory.ts";
import { readTrajectories } from "../run/trajectories.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { train } from "./train.ts";
import type { TrainOptions } from "./train-options.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "tokens-"));
});
afterEach(() => rmSync(dir, { recursive: true }));

/** What the loss was given of each conversation, by its first chain: the last time counts. */
function watched(config: AlgorithmConfig): { algorithm: Algorithm; given: Map<TokenChain, LossSequence> } {
  const own = createAlgorithm(config);
  const given = new Map<TokenChain, LossSequence>();
  const algorithm: Algorithm = {
    ...own,
    loss(micro, counts) {
      for (const one of micro) {
        const { chains } = one as LossSequence & { chains: readonly TokenChain[] };
        // A copy: nobody says that the arrays stay as they are.
        given.set(chains[0]!, structuredClone({ ...one, chains: [] }));
      }
      return own.loss(micro, counts);
    },
  };
  return { algorithm, given };
}

async function recorded(config: AlgorithmConfig, options: Partial<TrainOptions> = {}) {
  const { algorithm, given } = watched(config);
  const groups: TrajectoryGroup[] = [];
  const refused: string[] = [];
  await train({
    ...{ learningRate: 0.3, schedule: "constant", warmup: 0, groupsPerStep: 3, groupSize: 4, steps: 2, recall: false },
    ...{ agent: tableAgent({ spread: 1 }).agent, environment: tableEnvironment(), dir },
    ...{ reward: new FunctionReward(politeShare), algorithm, trajectories: { every: 1, perStep: 9 } },
    ...options,
    callbacks: { onRollouts: (event) => void groups.push(...event.groups) },
  } as TrainOptions);
  const conversations = groups.flatMap(({ trajectories }) => trajectories);
  const records = [1, 2].flatMap((step) => readTrajectories(dir, step));
  const compared = records.flatMap((record) => {
    const own = conversations.find(({ id }) => id === record.id);
    if (!own) refused.push(record.leftOut!);
    const seen = own?.chains.map((chain) => given.get(chain)).find((one) => one !== undefined);
    return seen ? [{ record, seen }] : [];
  });
  return { records, compared, refused };
}

type Recorded = Awaited<ReturnType<typeof recorded>>["compared"][number]["record"];
const columnOf = ({ chains }: Recorded, name: "advantage" | "ratio" | "entropy" | "reference" | "value") =>
  chains.flatMap(({ columns }) => [...columns![name]]);

/** Log-probs of the tokens that learn, as they were sampled. */
const sampledOf = ({ chains }: Recorded) =>
  chains.flatMap(({ columns }) => learnPlaces(columns!).map((place) => columns!.logprobs[place]!));

const unknown = (count: number) => Array<number>(count).fill(Number.NaN);

function expectSame({ record, seen }: { record: Recorded; seen: LossSequence }): void {
  const { old, logprobs, advantages, ref, entropy, values } = seen;
  expect(sampledOf(record)).toEqual([...old]);
  expect(columnOf(record, "ratio")).toEqual(
    [...logprobs].map((logprob, t) => Math.fround(Math.exp(logprob - old[t]!))),
  );
  expect(columnOf(record, "advantage")).toEqual([...advantages]);
  expect(columnOf(record, "entropy")).toEqual([...entropy!]);
  expect(columnOf(record, "reference")).toEqual(ref ? [...ref] : unknown(old.length));
  expect(columnOf(record, "value")).toEqual(values ? [...values] : unknown(old.length));
}

describe("recorded tokens have the numbers of the loss", { timeout: 60_000 }, () => {
  it("in GRPO, by the last of several passes", async () => {
    const { compared } = await recorded({ algorithm: "grpo" }, { updatesPerRollout: 2, minibatches: 2 });
    expect(compared.length).toBeGreaterThan(12);
    for (const one of compared) expectSame(one);
    expect(compared.some(({ record }) => columnOf(record, "ratio").some((ratio) => ratio !== 1))).toBe(true);
  });

  it("in GRPO with a reference", async () => {
    const { compared } = await recorded({ algorithm: "grpo" }, { kl: { coefficient: 0.05 } });
    expect(compared.length).toBe(24);
    for (const one of compared) {
      expectSame(one);
      expect(columnOf(one.record, "reference").some(Number.isNaN)).toBe(false);
    }
  });

  it("in PPO, with values and advantages that differ from token to token", async () => {
    const { compared } = await recorded({ algorithm: "ppo", lambda: 0.9 }, { updatesPerRollout: 2 });
    expect(compared.length).toBe(24);
    for (const one of compared) {
      expectSame(one);
      expect(columnOf(one.record, "value").some(Number.isNaN)).toBe(false);
    }
    expect(compared.some(({ record }) => new Set(columnOf(record, "advantage")).size > 1)).toBe(true);
  });

  it("in DAPO, where refused groups have none", async () => {
    const reward = new FunctionReward((turns, { scenario }) =>
      scenario?.id === "scenario-0" ? 1 : politeShare(turns),
    );
    const { compared, refused, records } = await recorded({ algorithm: "dapo" }, { reward, groupsPerStep: 4 });
    for (const one of compared) expectSame(one);
    expect(compared.length).toBeGreaterThan(4);
    expect(refused.length).toBeGreaterThan(0);
    expect(new Set(refused)).toEqual(new Set(["refused"]));
    for (const record of records.filter(({ leftOut }) => leftOut)) {
      expect(columnOf(record, "advantage").every(Number.isNaN)).toBe(true);
      expect(sampledOf(record).every((logprob) => logprob < 0)).toBe(true);
    }
  });

  it("also of the tokens that an entropy quantile leaves out of the gradient", async () => {
    const { compared } = await recorded({ algorithm: "grpo" }, { entropyQuantile: 0.8 });
    for (const one of compared) expectSame(one);
    expect(compared.some(({ record }) => new Set(columnOf(record, "advantage")).size > 1)).toBe(true);
  });
});
