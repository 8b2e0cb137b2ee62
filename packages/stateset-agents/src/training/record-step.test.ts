import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { type ChainTokens, readTrajectories, type TrajectoryRecord } from "../run/trajectories.ts";
import { keptRun } from "../test-support/kept-run.ts";
import { FunctionReward, politeShare, tableAgent, tableScenarios } from "../test-support/table-training.ts";
import { train } from "./train.ts";
import type { TrainOptions } from "./train-options.ts";

let root: string;
beforeEach(() => {
  root = temporaryFolder();
});

const whole = { every: 1, perStep: 3, tokens: true };

/** A run of which every conversation is written, beside what its onlookers saw. */
async function recorded(options: Partial<TrainOptions> = {}) {
  const dir = join(root, "run");
  const seen: (readonly TrajectoryGroup[])[] = [];
  const callbacks: TrainOptions["callbacks"] = { onRollouts: ({ groups }) => void seen.push(groups) };
  const { run } = await train(keptRun(dir, { trajectories: whole, ...options, callbacks }));
  return { dir, seen, metrics: run.metrics };
}

const columnsOf = (records: readonly TrajectoryRecord[]) =>
  records.flatMap(({ chains }) => chains.map(({ columns }) => columns!));
const column = (
  records: readonly TrajectoryRecord[],
  name: "advantage" | "ratio" | "entropy" | "reference" | "value",
) => columnsOf(records).flatMap((columns) => [...columns[name]]);
const known = (numbers: readonly number[]) => numbers.filter((number) => !Number.isNaN(number));
const mean = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0) / numbers.length;

describe("the record of a step", { timeout: 60_000 }, () => {
  it("is what was sampled, token by token", async () => {
    const { dir, seen } = await recorded();
    for (const [i, groups] of seen.entries()) {
      const records = readTrajectories(dir, i + 1);
      const trajectories = groups.flatMap((group) => group.trajectories);
      expect(records.map(({ id, group, scenarioId, reward }) => ({ id, group, scenarioId, reward }))).toEqual(
        groups.flatMap(({ id: group, trajectories }) =>
          trajectories.map(({ id, scenarioId, reward }) => ({ id, group, scenarioId, reward })),
        ),
      );
      records.forEach(({ chains, messages }, c) => {
        const { turns, chains: own } = trajectories[c]!;
        expect(messages.map(({ content }) => content)).toEqual(turns.map(({ content }) => content));
        expect(chains.map(({ columns }) => pick(columns!))).toEqual(own.map(pick));
        expect(chains.map(({ versions }) => versions)).toEqual(own.map(({ versions }) => versions));
      });
    }
  });

  it("gives the numbers of the metrics again", async () => {
    const { dir, metrics } = await recorded({ algorithm: "grpo", beta: 0.04 } as Partial<TrainOptions>);
    for (const { step, entropy, kl, reward, firstRatioMax } of metrics) {
      const records = readTrajectories(dir, step);
      expect(mean(records.map((record) => record.reward!.score))).toBeCloseTo(reward!, 12);
      const ratios = known(column(records, "ratio"));
      expect(new Set(ratios)).toEqual(new Set([1]));
      expect(firstRatioMax).toBe(1);
      const surprises = columnsOf(records).flatMap(({ logprobs, learn }) =>
        [...logprobs].flatMap((logprob, i) => (learn[i] === 1 ? [-logprob] : [])),
      );
      expect(mean(surprises)).toBeCloseTo(entropy!, 5);
      // The k3 estimate of KL(policy ‖ reference), by what each token has.
      const points = columnsOf(records).flatMap(({ logprobs, learn, reference, ratio }) => {
        const sampled = [...logprobs].filter((_, i) => learn[i] === 1);
        return sampled.flatMap((logprob, t) => {
          const difference = reference[t]! - logprob;
          return Number.isNaN(ratio[t]) ? [] : [Math.exp(difference) - difference - 1];
        });
      });
      expect(mean(points)).toBeCloseTo(kl!, 5);
      // Group-relative: the advantages of a group's conversations add up to nothing.
      for (const group of new Set(records.map((record) => record.group))) {
        const own = records.filter((record) => record.group === group);
        expect(mean(own.map((record) => column([record], "advantage")[0]!))).toBeCloseTo(0, 5);
      }
    }
  });

  it("has the ratio of the last of several passes, and values where there is a value head", async () => {
    const { dir, metrics } = await recorded({ algorithm: "ppo", updatesPerRollout: 3 } as Partial<TrainOptions>);
    const records = readTrajectories(dir, 2);
    const ratios = column(records, "ratio");
    expect(known(ratios).length).toBe(ratios.length);
    expect(Math.max(...ratios.map((ratio) => Math.max(ratio, 1 / ratio)))).toBeGreaterThan(1);
    expect(Math.max(...ratios)).toBeLessThanOrEqual(metrics[1]!.ratioMax! + 1e-6);
    expect(known(column(records, "value")).length).toBe(ratios.length);
  });

  it("has the ratio that a trust region moved to, not those it tried", async () => {
    const { dir, metrics } = await recorded({ algorithm: "trpo", steps: 1 } as Partial<TrainOptions>);
    const records = readTrajectories(dir, 1);
    const ratios = known(column(records, "ratio"));
    expect(metrics[0]!.trustRegionAccepted).toBe(1);
    // Sampled under the old policy, E[ratio] = 1 and E[−log ratio] = KL(old ‖ new).
    expect(Math.max(...ratios)).toBeGreaterThan(1);
    expect(mean(ratios)).toBeCloseTo(1, 1);
    expect(mean(ratios.map((ratio) => ratio - 1 - Math.log(ratio)))).toBeLessThan(
      3 * metrics[0]!.trustRegionKl! + 1e-3,
    );
  });

  it("changes nothing of what is learnt", async () => {
    const { metrics } = await recorded();
    rmSync(join(root, "run"), { recursive: true });
    const without = await recorded({ trajectories: { ...whole, tokens: false } });
    expect(without.metrics).toEqual(metrics);
    expect(readdirSync(join(without.dir, "trajectories"))).toEqual(["step-000001.jsonl", "step-000002.jsonl"]);
  });

  it("has an advantage of 0, and no ratio, where a conversation carried no gradient", async () => {
    const { dir } = await recorded({ reward: new FunctionReward(() => 1), steps: 1 });
    const records = readTrajectories(dir, 1);
    expect(new Set(column(records, "advantage"))).toEqual(new Set([0]));
    expect(known(column(records, "ratio"))).toEqual([]);
  });

  it("holds lost conversations and dropped groups with what became of them, and says how many are left out", async () => {
    const reward = new FunctionReward((turns, { scenario }) => {
      if (scenario?.id === "scenario-0") throw new Error("no verdict");
      return politeShare(turns);
    });
    const broken = { trajectories: { every: 1, perStep: 1 }, groupsPerStep: 4, steps: 1 };
    const { dir } = await recorded({ ...broken, reward });
    const left = readTrajectories(dir, 1).filter(({ leftOut }) => leftOut);
    expect(left.length).toBe(4);
    for (const record of left) {
      expect(record).toMatchObject({ leftOut: "lost", scenarioId: "scenario-0", failure: { during: "reward" } });
      expect(record.failure!.message).toContain("no verdict");
      expect(record).not.toHaveProperty("reward");
      expect(known(column([record], "advantage"))).toEqual([]);
      expect(record.chains[0]!.columns!.tokens.length).toBeGreaterThan(0);
    }
    rmSync(join(root, "run"), { recursive: true });
    let calls = 0;
    const more = await recorded({
      ...broken,
      reward: new FunctionReward((turns, { scenario }) => {
        // One of its four comes through, which is too few; of another scenario's, all fail.
        if (scenario?.id === "scenario-0" && calls++ > 0) throw new Error("no verdict");
        if (scenario?.id === "scenario-1") throw new Error("no verdict");
        return politeShare(turns);
      }),
    });
    const records = readTrajectories(more.dir, 1);
    expect(records.filter(({ leftOut }) => leftOut).length).toBe(4);
    expect(records.at(-1)!.notWritten).toEqual({ lost: 3, dropped: 1, refused: 0 });
  });

  it("holds groups that the algorithm refused", async () => {
    const reward = new FunctionReward((turns, { scenario }) =>
      scenario?.id === "scenario-0" ? 1 : politeShare(turns),
    );
    const options = { algorithm: "dapo", groupsPerStep: 4, steps: 1, trajectories: { every: 1, perStep: 2 } };
    const { dir } = await recorded({ ...options, reward } as Partial<TrainOptions>);
    const refused = readTrajectories(dir, 1).filter(({ leftOut }) => leftOut === "refused");
    expect(refused.length).toBeGreaterThanOrEqual(4);
    expect(refused[0]).toMatchObject({ scenarioId: "scenario-0", reward: { score: 1 } });
  });

  it("is refused by its line when a line of it is damaged", async () => {
    const { dir } = await recorded({ steps: 1 });
    const file = join(dir, "trajectories/step-000001.jsonl");
    const [first, second, ...rest] = readFileSync(file, "utf8").split("\n");
    writeFileSync(file, [first, JSON.stringify({ ...JSON.parse(second!), chains: null }), ...rest].join("\n"));
    expect(() => readTrajectories(dir, 1)).toThrow(/step-000001\.jsonl, line 2: "chains" is no list of chains/);
  });

  it("marks what a stub made up", async () => {
    const { MultiTurnAgent } = await import("../agent/multi-turn-agent.ts");
    const agent = new MultiTurnAgent({ stub: { replies: ["Yes."], dryRun: true } });
    const { dir } = await recorded({ agent, steps: 1 });
    const records = readTrajectories(dir, 1);
    expect(records.length).toBe(12);
    for (const record of records) expect(record.stub).toBe(true);
  });

  it("goes with a run that is split off, and is written anew by one that goes back", async () => {
    const environment = new ConversationEnvironment({ scenarios: tableScenarios, maxTurns: 3 });
    const { dir } = await recorded({ steps: 4, environment, checkpoint: { every: 2 } });
    const bytes = () => {
      const folder = join(dir, "trajectories");
      return readdirSync(folder).map((name) => [name, readFileSync(join(folder, name)).toString("base64")]);
    };
    const before = bytes();
    expect(before.length).toBe(8);
    const parts = { agent: tableAgent().agent, environment, reward: new FunctionReward(politeShare) };
    const resumeFrom = join(dir, "checkpoints", "step-000002");
    await train({ ...parts, resumeFrom, dir: join(root, "split"), steps: 2 });
    expect(readdirSync(join(root, "split", "trajectories"))).toEqual(before.slice(0, 4).map(([name]) => name));
    expect(readTrajectories(join(root, "split"), 2)[0]!.chains[0]!.columns).toBeDefined();
    // Shorter than before: what lay beyond does not stay behind.
    await train({ ...parts, agent: tableAgent().agent, resumeFrom, discardLater: true, steps: 3 });
    expect(existsSync(join(dir, "trajectories", "step-000004.bin"))).toBe(false);
    expect(bytes().slice(0, 4)).toEqual(before.slice(0, 4));
  });
});

function pick({ tokens, logprobs, learn, turn }: Pick<ChainTokens, "tokens" | "logprobs" | "learn" | "turn">) {
  return { tokens, logprobs, learn, turn };
}
