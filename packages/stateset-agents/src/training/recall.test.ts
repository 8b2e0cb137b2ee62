import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { Algorithm, Sequence } from "../algorithm/algorithm.ts";
import { type AlgorithmConfig, createAlgorithm } from "../algorithm/algorithms.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { runFiles } from "../run/layout.ts";
import { fakeGroup } from "../test-support/fake-group.ts";
import { hashesOf } from "../test-support/run-folder.ts";
import { FunctionReward, politeShare, quickRun, tableAgent } from "../test-support/table-training.ts";
import { mostScenarios, Recall } from "./recall.ts";
import { train } from "./train.ts";

const root = mkdtempSync(join(tmpdir(), "recall-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const group = (scenarioId: string, ...rewards: number[]) =>
  fakeGroup(
    scenarioId,
    // The first token of a chain has nothing before it that could have foretold it.
    rewards.map((reward, i) => ({ reward, tokens: 1 + (i + 1) })),
  );
/** The rewards and lengths of what joins. */
const joining = (recall: Recall, of: ReturnType<typeof group>) =>
  recall.joining(of, 3).map(({ reward, old, group: index }) => ({ reward, tokens: old.length, index }));

describe("what a run remembers", () => {
  it("is the best conversation of a scenario, the latest among equals", () => {
    const recall = new Recall({ maskTruncated: false });
    expect(joining(recall, group("a", 0, 0))).toEqual([]);
    recall.note([group("a", 0, 1, 0), group("b", 0, 0.5)]);
    expect(joining(recall, group("a", 0, 0))).toEqual([{ reward: 1, tokens: 2, index: 3 }]);
    recall.note([group("a", 0, 0.5), group("a", 0, 0, 1)]);
    expect(joining(recall, group("a", 0, 0))).toEqual([{ reward: 1, tokens: 3, index: 3 }]);
    expect(joining(recall, group("b", 0, 0))).toEqual([{ reward: 0.5, tokens: 2, index: 3 }]);
  });

  it("joins only groups that are all alike and below it", () => {
    const recall = new Recall({ maskTruncated: false });
    recall.note([group("a", 0, 1)]);
    expect(joining(recall, group("a", 0, 0.1))).toEqual([]);
    expect(joining(recall, group("a", 1, 1))).toEqual([]);
    expect(joining(recall, group("a", 2, 2))).toEqual([]);
    expect(joining(recall, group("a", 0.9, 0.9))).toHaveLength(1);
  });

  it("leaves out conversations that nothing would be learnt from", () => {
    const cut = group("a", 1, 0.5);
    cut.trajectories[0]!.ended = "context-full";
    const [masked, whole] = [true, false].map((maskTruncated) => new Recall({ maskTruncated }));
    for (const recall of [masked!, whole!]) recall.note([cut]);
    expect(joining(masked!, group("a", 0, 0))).toMatchObject([{ reward: 0.5 }]);
    expect(joining(whole!, group("a", 0, 0))).toMatchObject([{ reward: 1 }]);
    const broken = group("b", 0, 0);
    for (const trajectory of broken.trajectories) trajectory.ended = "failed";
    whole!.note([broken]);
    expect(joining(whole!, group("b", -1, -1))).toEqual([]);
  });

  it("names the lost scenarios, the one that waited longest first", () => {
    const recall = new Recall({ maskTruncated: false });
    recall.note(["a", "b", "c", "d"].map((id) => group(id, 0, 1)));
    expect(recall.lost()).toEqual([]);
    recall.note([group("b", 0, 0), group("a", 0, 0), group("c", 0.5, 0)]);
    expect(recall.lost()).toEqual(["b", "a"]);
    recall.note([group("b", 0, 0)]);
    expect(recall.lost()).toEqual(["a", "b"]);
    recall.note([group("a", 1, 1)]);
    expect(recall.lost()).toEqual(["b"]);
  });

  it("forgets the scenarios met least lately beyond a bound", () => {
    const recall = new Recall({ maskTruncated: false });
    for (let i = 0; i < mostScenarios; i++) recall.note([group(`s${i}`, 0, 1)]);
    recall.note([group("s0", 0, 0), group("new", 0, 1)]);
    expect(["s0", "s1", "s2", "new"].map((id) => recall.joining(group(id, 0, 0), 0).length)).toEqual([1, 0, 1, 1]);
  });

  it("comes back from a checkpoint as it was", async () => {
    const recall = new Recall({ maskTruncated: false });
    recall.note([group("a", 0, 1), group("b", 0.5, 0.25, 0)]);
    recall.note([group("b", 0, 0), group("a", 0, 0)]);
    const [first, second] = [join(root, "first"), join(root, "second")];
    await recall.snapshot(first);
    const back = new Recall({ maskTruncated: false });
    await back.restore(first);
    expect(back.lost()).toEqual(["b", "a"]);
    for (const id of ["a", "b"]) {
      const flat = group(id, 0, 0);
      expect(back.joining(flat, 0)).toEqual(recall.joining(flat, 0));
    }
    await back.snapshot(second);
    expect(hashesOf(second)).toEqual(hashesOf(first));
  });
});

/** Polite replies pay in the first two steps, and nothing does after them: from then on every scenario is lost. */
function losing({ after = 2, from = 0 } = {}) {
  let step = from;
  return {
    reward: new FunctionReward((turns) => (step < after ? politeShare(turns) : 0)),
    callbacks: {
      onStepEnd(event: { step: number }) {
        step = event.step;
      },
    },
  };
}
const short = { ...quickRun, steps: 4, groupsPerStep: 4, groupSize: 4 } as const;

/** What an algorithm is shown, step by step. */
function watched(config: AlgorithmConfig): { algorithm: Algorithm; shown: Sequence[][] } {
  const shown: Sequence[][] = [];
  const own = createAlgorithm(config);
  const algorithm: Algorithm = {
    ...own,
    name: "watched",
    advantages(sequences) {
      shown.push(sequences.map((sequence) => ({ ...sequence })));
      return own.advantages(sequences);
    },
  };
  return { algorithm, shown };
}

describe("a remembered conversation", () => {
  it("joins what is learnt from and nothing else", async () => {
    const { algorithm, shown } = watched({ algorithm: "grpo" });
    const sizes: number[][] = [];
    const { reward, callbacks } = losing();
    const counting = {
      onStepEnd: ({ groups }: { groups: readonly { trajectories: readonly unknown[] }[] }) => {
        sizes.push(groups.map(({ trajectories }) => trajectories.length));
      },
    };
    const { run } = await train({
      ...short,
      agent: tableAgent().agent,
      algorithm,
      reward,
      callbacks: [callbacks, counting],
    });
    expect(shown.map(({ length }) => length)).toEqual([16, 16, 20, 20]);
    expect(sizes).toEqual([1, 2, 3, 4].map(() => [4, 4, 4, 4]));
    expect(run.metrics.map(({ recalledConversations }) => recalledConversations)).toEqual([undefined, undefined, 4, 4]);
    expect(run.metrics.slice(2).map((metrics) => [metrics.reward, metrics.rewardMax, metrics.conversations])).toEqual([
      [0, 0, 16],
      [0, 0, 16],
    ]);
    expect(run.metrics.at(-1)!.learnedConversations).toBe(20);
  });

  it.each([
    ["top-p shapes the sampling", true],
    ["another program samples", false],
  ])("counts as if the present policy had sampled it where %s", async (_, exact) => {
    const { algorithm, shown } = watched({ algorithm: "grpo", correction: { mode: "truncate" } });
    const { policy } = tableAgent({ seed: 3, spread: 1 });
    Object.assign(policy.capabilities, { exact });
    const sampling = { maxTokens: 6, temperature: 1.3, ...(exact && { topP: 0.9 }) };
    const agent = new MultiTurnAgent({ policy, sampling });
    const { run } = await train({ ...short, ...losing(), agent, algorithm });
    const joined = shown.at(-1)!.filter(({ reward }) => reward > 0);
    expect(joined).toHaveLength(4);
    for (const one of shown.at(-1)!) expect(one.sampled === undefined).toBe(joined.includes(one));
    expect(run.metrics.map(({ firstRatioMax }) => firstRatioMax)).toEqual([1, 1, 1, 1]);
  });

  it.each([
    ["turn credit", { algorithm: "grpo", credit: "turn" }],
    ["weighed parts", { algorithm: "grpo", rewardWeights: { function: 2 } }],
    ["leave-one-out", { algorithm: "rloo" }],
  ])("teaches with %s", async (_, choice) => {
    const { run } = await train({ ...short, ...losing(), ...choice, agent: tableAgent().agent } as never);
    expect(run.metrics.at(-1)).toMatchObject({ recalledConversations: 4 });
    expect(run.metrics.at(-1)!.gradNorm).toBeGreaterThan(0);
  });

  it("saves a group from being refused by dynamic sampling", async () => {
    const rounds = async (recall: boolean) => {
      const { run } = await train({ ...short, ...losing(), agent: tableAgent().agent, algorithm: "dapo", recall });
      return run.metrics.map(({ samplingRounds, refusedGroups }) => [samplingRounds, refusedGroups]).at(-1);
    };
    expect(await rounds(true)).toEqual([1, 0]);
    expect(await rounds(false)).toEqual([10, 40]);
  });
});

describe("a run that recalls", () => {
  it("is the run it was without, to the bit, while nothing is lost", async () => {
    const end = async (recall: boolean, reward: FunctionReward) => {
      const { agent, policy } = tableAgent();
      // Long enough for a first look.
      const { run } = await train({ ...short, steps: 12, agent, reward, recall });
      return { metrics: run.metrics, parameters: [...policy.parameters] };
    };
    const healthy = () => new FunctionReward(politeShare);
    const [on, off] = [await end(true, healthy()), await end(false, healthy())];
    expect(on).toEqual(off);
    expect(on.metrics.at(-1)!.groupStd).toBeGreaterThan(0);
  });

  /** Five scenarios take "yes" or "ok" for a beginning, one takes "ok" alone; the policy is inclined to say "yes". */
  const scenarios = ["order late", "card broken", "help order", "refund order", "late card", "really well"].map(
    (text, i) => ({
      id: i === 5 ? "rare" : `common-${i}`,
      userResponses: [text],
    }),
  );
  const reward = () =>
    new FunctionReward(([user, reply]) => {
      const right = user!.content === "really well" ? ["ok"] : ["yes", "ok"];
      return right.some((word) => reply!.content.startsWith(word)) ? 1 : 0;
    });
  const shop = { environment: new ConversationEnvironment({ scenarios, maxTurns: 1 }), steps: 60, groupsPerStep: 2 };
  function inclined() {
    const { agent, policy } = tableAgent();
    const size = policy.model.vocabSize;
    for (let row = 0; row < size; row++) {
      policy.parameters[row * size + policy.idOf("yes")]! += 4;
      policy.parameters[row * size + policy.idOf("ok")]! += 1.5;
    }
    return agent;
  }

  /** Mean reward of the rare scenario and of the others in the last steps. */
  async function ends(own: object): Promise<{ rare: number; common: number }> {
    const seen: { rare: number[]; common: number[] } = { rare: [], common: [] };
    const callbacks = {
      onStepEnd({ step, groups }: { step: number; groups: readonly ReturnType<typeof group>[] }) {
        for (const { scenarioId, trajectories } of groups) {
          if (step > 40)
            seen[scenarioId === "rare" ? "rare" : "common"].push(...trajectories.map((one) => one.reward.score));
        }
      },
    };
    await train({ ...quickRun, ...shop, ...own, agent: inclined(), reward: reward(), callbacks });
    const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
    return { rare: mean(seen.rare), common: mean(seen.common) };
  }

  it.each([2, 3])("wins a scenario back that is lost without (seed %i)", async (seed) => {
    const [without, recalling] = [await ends({ seed, recall: false }), await ends({ seed })];
    expect(without.rare).toBeLessThan(0.05);
    expect(recalling.rare).toBeGreaterThan(0.8);
    expect(recalling.common).toBeGreaterThan(0.95);
  });

  it("meets every scenario before it learns anything, where that is a small part of the run", async () => {
    const met = async (own: object) => {
      const counts: Record<string, number> = {};
      const stop = new AbortController();
      const counting = new FunctionReward((turns, { scenario }) => {
        counts[scenario!.id] = (counts[scenario!.id] ?? 0) + 1;
        return politeShare(turns);
      });
      const callbacks = { onStepStart: () => stop.abort() };
      const { signal } = stop;
      await train({ ...short, ...own, agent: tableAgent().agent, reward: counting, callbacks, signal });
      return Object.values(counts);
    };
    // 16 of 160 conversations are a tenth, 16 of 176 are less.
    expect(await met({ steps: 10 })).toEqual([]);
    expect(await met({ steps: 11 })).toEqual([4, 4, 4, 4]);
    expect(await met({ steps: 11, recall: false })).toEqual([]);
    expect(await met({ steps: 11, algorithm: "ppo" })).toEqual([]);
  });

  it("recalls what only the policy it began with could do", async () => {
    let untrained = true;
    const reward = new FunctionReward((turns) => (untrained ? politeShare(turns) : 0));
    const callbacks = {
      onStepStart: () => {
        untrained = false;
      },
    };
    const { run } = await train({ ...short, steps: 12, agent: tableAgent().agent, reward, callbacks });
    const recalled = run.metrics.map(({ recalledConversations = 0 }) => recalledConversations);
    expect(recalled).toEqual(Array.from({ length: 12 }, () => 4));
    // In no metric but that one.
    expect(run.metrics[0]).toMatchObject({ step: 1, reward: 0, conversations: 16 });
  });

  it("goes on to the same bytes after a stop", async () => {
    const place = (dir: string) => ({
      ...short,
      steps: 12,
      checkpoint: { every: 2, keep: 1 },
      agent: tableAgent().agent,
      dir,
    });
    const [whole, stopped] = [join(root, "whole"), join(root, "stopped")];
    await train({ ...place(whole), ...losing() });
    const stop = new AbortController();
    const { reward, callbacks } = losing();
    const stopping = { onStepEnd: ({ step }: { step: number }) => void (step === 3 && stop.abort()) };
    const first = await train({ ...place(stopped), reward, callbacks: [callbacks, stopping], signal: stop.signal });
    expect(first.run).toMatchObject({ status: "interrupted", steps: 3 });
    const { dir: _, ...again } = place(stopped);
    const { run } = await train({ ...again, ...losing({ from: 3 }), resumeFrom: stopped });
    expect(run.metrics.map(({ recalledConversations = 0 }) => recalledConversations)).toEqual([
      0,
      0,
      ...Array.from({ length: 10 }, () => 4),
    ]);
    expect(hashesOf(stopped, [runFiles.config])).toEqual(hashesOf(whole, [runFiles.config]));
  });
});
