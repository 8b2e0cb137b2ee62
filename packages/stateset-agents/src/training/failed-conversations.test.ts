/** Conversations in which the environment throws at what the policy said. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createAlgorithm } from "../algorithm/algorithms.ts";
import type { Trajectory, Turn } from "../conversation/trajectory.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import type { EnvironmentState } from "../environment/environment.ts";
import type { ConversationScenario } from "../environment/scenario.ts";
import { evaluate } from "../evaluation/evaluate.ts";
import { learnFrom } from "../learning/learn-from.ts";
import { sequencesOf } from "../learning/sequence.ts";
import { CompositeReward } from "../reward/composite-reward.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import { readTrajectories } from "../run/trajectories.ts";
import { harvestBestOfN } from "../supervised/best-of-n.ts";
import { hashesOf } from "../test-support/run-folder.ts";
import { FunctionReward, quickRun, tableAgent, tableScenarios } from "../test-support/table-training.ts";
import type { TrainingCallbacks } from "./callbacks.ts";
import { train } from "./train.ts";

const root = mkdtempSync(join(tmpdir(), "failed-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const wordsOf = ({ content }: Turn) => content.split(" ").filter(Boolean);

/** Throws at every reply that says "no". */
class Touchy extends ConversationEnvironment {
  override async step(state: EnvironmentState<ConversationScenario>, action: Turn) {
    if (wordsOf(action).includes("no")) throw new Error("cannot hear no");
    return super.step(state, action);
  }
}
const environment = new Touchy({ scenarios: tableScenarios, maxTurns: 1 });

const disliked = ["refund", "order", "late", "help", "card", "broken", "well"];
/** Replies of four words or more, none of them disliked. What moves away from these moves to the others, "no" among them. */
const reward = new FunctionReward((turns) => {
  const words = wordsOf(turns.findLast(({ role }) => role === "assistant")!);
  const liked = words.filter((word) => !disliked.includes(word)).length;
  return words.length === 0 ? 0 : (Math.min(1, words.length / 4) * liked) / words.length;
});

describe("replies that break the environment", () => {
  it("are unlearnt, and were learnt where their conversations are dropped", async () => {
    /** The share of conversations that failed, in the first five steps and in the last. */
    const shares = async (options: { onFailure?: "drop" }) => {
      const failed: number[] = [];
      const callbacks: TrainingCallbacks = {
        onRollouts({ report }) {
          failed.push((report.lost.length + report.failed.length) / report.requested);
        },
      };
      await train({ ...quickRun, ...options, environment, reward, agent: tableAgent().agent, steps: 15, callbacks });
      const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
      return [mean(failed.slice(0, 5)), mean(failed.slice(-5))] as const;
    };
    const [dropFirst, dropLast] = await shares({ onFailure: "drop" });
    expect(dropLast).toBeGreaterThan(dropFirst + 0.1);
    const [first, last] = await shares({});
    expect(first).toBeGreaterThan(0.1);
    expect(last).toBeLessThan(0.02);
  });

  it("count what the lowest conversation of the run did, or 0, or what is asked for; it is said, counted and written down", async () => {
    const failing = async (options: object, score = reward) => {
      const dir = mkdtempSync(join(root, "run-"));
      const given = { ...quickRun, ...options, environment, reward: score, agent: tableAgent().agent, steps: 1, dir };
      const { run } = await train({ ...given, trajectories: { every: 1, perStep: 4 } });
      const records = readTrajectories(dir, 1).filter(({ ended }) => ended === "failed");
      return { run, records, metrics: run.metrics.find(({ step }) => step === 1)! };
    };
    const less = new FunctionReward(async (turns) => (await reward.compute({ turns })).score - 1.5);
    for (const [options, score, given] of [
      [{}, 0, reward],
      [{}, -1.5, less],
      [{ onFailure: { score: -4 } }, -4, reward],
    ] as const) {
      const { run, records, metrics } = await failing(options, given);
      expect(records.length).toBeGreaterThan(2);
      expect(metrics).toMatchObject({ failedConversations: records.length, environmentLost: 0, conversations: 32 });
      expect(metrics.rewardMin).toBe(score);
      expect(run.warnings.find(({ kind }) => kind === "environment-failed")!.message).toMatch(
        new RegExp(
          `0 conversations were lost, and ${records.length} in which .* count with a reward of ${score} .*cannot hear no`,
        ),
      );
      for (const record of records) {
        expect(record).toMatchObject({ reward: { score }, failure: { during: "step", message: "cannot hear no" } });
        expect(record.leftOut).toBeUndefined();
        // The reply that it threw at is the last thing said.
        expect(wordsOf(record.messages.at(-1)!)).toContain("no");
      }
    }
    const { metrics, records } = await failing({ onFailure: "drop" });
    expect(metrics).toMatchObject({ failedConversations: 0, environmentLost: records.length });
    expect(records.every(({ leftOut }) => leftOut === "lost")).toBe(true);
  });

  it("are not hidden by maskTruncated, nor by rewardWeights", async () => {
    const { agent } = tableAgent();
    const sampling = { maxTokens: 3 };
    const parts = [rewardFunction({ name: "cost" }, () => -2), rewardFunction({ name: "even" }, () => 1)];
    const { groups, report } = await harvestBestOfN({
      agent,
      environment,
      reward: new CompositeReward(parts),
      sampling,
    });
    expect(report.failed.length).toBeGreaterThan(2);
    const cut = ({ turns }: Trajectory) => turns.some(({ sampled }) => sampled?.finishReason === "length");
    expect(report.failed.some(cut)).toBe(true);
    const sequences = sequencesOf(groups);
    expect(sequences.filter(({ failed }) => failed).every(({ truncated }) => !truncated)).toBe(true);
    const { advantages } = createAlgorithm({ algorithm: "grpo", rewardWeights: { cost: 1, even: 1 } });
    const firsts = advantages(sequences).map((own) => own.advantages[0]!);
    const of = (failed: boolean) => firsts.filter((_, i) => (sequences[i]!.failed ?? false) === failed);
    expect(Math.max(...of(true))).toBeLessThan(Math.min(...of(false)));
  });

  it("can be learnt from by learnFrom() and are never what best-of-N keeps", async () => {
    const { agent, policy } = tableAgent();
    const harvest = await harvestBestOfN({ agent, environment, reward, onFailure: { score: 9 }, aboveMean: false });
    expect(harvest.report.failed.length).toBeGreaterThan(0);
    expect(harvest.kept.some(({ ended }) => ended === "failed")).toBe(false);
    expect((await learnFrom(policy, harvest.groups, { algorithm: "grpo" })).updates).toBe(1);
  });

  it("count in evaluations, which say how many there were", async () => {
    const { agent } = tableAgent();
    const one = new FunctionReward(() => 1);
    const { reward: mean, failed, lost } = await evaluate({ agent, environment, reward: one, samples: 8 });
    expect(failed).toBeGreaterThan(2);
    expect(lost).toBe(0);
    expect(mean.mean).toBeCloseTo(1 - failed / 32, 10);
    const dropped = await evaluate({ agent, environment, reward: one, samples: 8, onFailure: "drop" });
    expect(dropped).toMatchObject({ failed: 0, lost: failed, reward: { mean: 1 } });
  });
});

describe("an environment that throws at every reply", () => {
  class Broken extends ConversationEnvironment {
    override async step(): Promise<never> {
      throw new Error("closed");
    }
  }
  const broken = new Broken({ scenarios: tableScenarios });

  it("ends a run after three steps also where it cannot parse what the policy says: that may be learnt", async () => {
    class Parsing extends ConversationEnvironment {
      override async step(_: EnvironmentState<ConversationScenario>, { content }: Turn): Promise<never> {
        return JSON.parse(content) as never;
      }
    }
    const parsing = new Parsing({ scenarios: tableScenarios });
    const run = train({ ...quickRun, environment: parsing, reward, agent: tableAgent().agent });
    await expect(run).rejects.toThrow(/3 steps in a row/);
  });

  it("ends a run after three steps, and an evaluation at once", async () => {
    const { agent } = tableAgent();
    await expect(train({ ...quickRun, environment: broken, reward, agent })).rejects.toMatchObject({
      code: "ENVIRONMENT_FAILED",
      message: expect.stringMatching(/3 steps in a row.*32× step\(\): closed/),
    });
    await expect(evaluate({ agent, environment: broken, reward })).rejects.toMatchObject({
      code: "ENVIRONMENT_FAILED",
    });
  });
});

describe("held-out conversations that all fail", () => {
  it("have a number: what the run says a failure counts", async () => {
    class Closed extends ConversationEnvironment {
      override async step(): Promise<never> {
        throw new Error("closed");
      }
    }
    const heldOut = new Closed({ scenarios: tableScenarios });
    const { agent } = tableAgent();
    const { run } = await train({
      ...quickRun,
      steps: 2,
      agent,
      environment,
      reward,
      heldOut,
      onFailure: { score: -1 },
    });
    expect(run.evaluation?.after).toMatchObject({ reward: { mean: -1 }, lost: 0 });
    expect(run.evaluation!.after!.failed).toBeGreaterThan(0);
    await expect(evaluate({ agent, environment: heldOut, reward, onFailure: { score: -1 } })).resolves.toMatchObject({
      reward: { mean: -1 },
    });
  });
});

describe("the lowest reward of a run", () => {
  it("is kept in its checkpoint: a resumed run counts failures as one that was not stopped", async () => {
    // The lowest comes in the first step, which scenario 0 has alone; the others fail at times, and never score below 0.
    const byScenario = new FunctionReward(async (turns, { scenario }) =>
      scenario!.id === "scenario-0" ? -5 : (await reward.compute({ turns })).score,
    );
    const run = async (dir: string, steps: number[]) => {
      for (const [i, last] of steps.entries()) {
        await train({
          ...quickRun,
          ...(i === 0 ? { dir } : { resumeFrom: dir, dir: undefined }),
          agent: tableAgent().agent,
          environment,
          reward: byScenario,
          seed: 2,
          groupsPerStep: 1,
          steps: last,
          checkpoint: { every: 2 },
          trajectories: { every: 1 },
        });
      }
      const failed = [1, 2, 3, 4]
        .flatMap((step) => readTrajectories(dir, step))
        .filter(({ ended }) => ended === "failed");
      return { failed, hashes: hashesOf(dir, ["config.json", "events.jsonl"]) };
    };
    const whole = await run(join(root, "whole"), [4]);
    const resumed = await run(join(root, "resumed"), [2, 4]);
    expect(whole.failed.some(({ step, reward }) => step! > 2 && reward!.score === -5)).toBe(true);
    expect(resumed.failed).toEqual(whole.failed);
    expect(resumed.hashes).toEqual(whole.hashes);
  });
});
