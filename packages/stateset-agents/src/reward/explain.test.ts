import { describe, expect, it } from "vitest";
import { acted } from "../test-support/acted.ts";
import { cachedReward } from "./cached-reward.ts";
import { CompositeReward } from "./composite-reward.ts";
import { rewardFunction } from "./define-reward.ts";
import { explain } from "./explain.ts";
import { MultiObjectiveReward } from "./multi-objective-reward.ts";
import { StateReward } from "./state-reward.ts";
import { ToolUseReward } from "./tool-use-reward.ts";

const find = { call: "find_order", arguments: { id: "A1" } };
const turns = acted("Refund A1.", find, find, "It is refunded.");
const conversation = { turns, scenario: { id: "refund" }, metadata: { success: false, progress: 0.5, writes: [] } };
const broken = rewardFunction({ name: "broken", weight: 2 }, () => {
  throw new Error("no connection");
});

describe("explain", () => {
  it("says who gave what, for which turn, and why", async () => {
    const reward = new CompositeReward([
      new StateReward({ weight: 3, partial: 0.5 }),
      new CompositeReward([new ToolUseReward()], { name: "manners" }),
    ]);
    const told = await explain(reward, conversation);
    expect(told).toMatchObject({ name: "composite", score: 0.375, parts: [{ share: 0.1875 }, { share: 0.1875 }] });
    expect(told.score).toBe((await reward.compute(conversation)).score);
    expect(String(told)).toBe(
      [
        "composite: 0.375",
        '  turn 3 (assistant): -0.063 find_order({"id":"A1"})',
        "  state: 0.25, adds 0.188",
        "    the task was not done (progress 0.5); the state was written 0 times",
        "  manners: 0.75, adds 0.188",
        '    turn 3 (assistant): -0.25 find_order({"id":"A1"})',
        "    toolUse: 0.75, adds 0.75, calls 2, faults 1",
        '      turn 3 (assistant): -0.25 find_order({"id":"A1"})',
        '      turn 3: the call of "find_order" is made again, and nothing had changed',
      ].join("\n"),
    );
    expect(JSON.parse(JSON.stringify(told))).toMatchObject({ parts: [{ name: "state" }, { name: "manners" }] });
  });

  it("tells of parts that failed: left out, or with a score in their place", async () => {
    const skipping = await explain(
      new CompositeReward([broken, new StateReward()], { onFailure: "skip" }),
      conversation,
    );
    expect(skipping).toMatchObject({
      score: 0,
      parts: [{ name: "broken", score: undefined, failure: "no connection" }, { share: 0 }],
    });
    expect(skipping.parts[0]).not.toHaveProperty("share");
    const counted = await explain(new CompositeReward([broken], { onFailure: { score: 0.4 } }), conversation);
    expect(counted.parts).toMatchObject([{ score: 0.4, share: 0.4, failure: "no connection" }]);
    expect(String(counted)).toContain("broken: 0.4, adds 0.4\n    failed: no connection");
    const failed = await explain(new CompositeReward([broken]), conversation);
    expect(failed).toMatchObject({ score: undefined, failure: expect.stringContaining('The part "broken"') });
    expect(String(failed)).toMatch(/^composite: no score\n {2}failed: The part/);
  });

  it("knows shares where objectives add up, and claims none where they do not", async () => {
    const objectives = [
      { name: "tools", reward: new ToolUseReward(), weight: 3 },
      { name: "half", reward: rewardFunction(() => ({ score: 5, breakdown: { words: 7 } })), range: [0, 10] as const },
    ];
    const sum = await explain(new MultiObjectiveReward({ objectives }), conversation);
    expect(sum.parts.map(({ share }) => share)).toEqual([0.75 * 0.75, 0.125]);
    expect(sum.score).toBeCloseTo(0.6875, 12);
    expect(sum.parts[1]!.details).toEqual({ words: 7 });
    const least = await explain(new MultiObjectiveReward({ objectives, aggregation: "min" }), conversation);
    expect(least.parts.map(({ score, share }) => [score, share])).toEqual([
      [0.75, undefined],
      [5, undefined],
    ]);
  });

  it("reads reasons as judges, verifiers and safety note them, and the turns of a plain reward", async () => {
    const reward = rewardFunction({ name: "mine" }, () => ({
      score: 0.5,
      turns: { 1: 0.25 },
      metadata: { reason: "brief", problems: ["no tool was called"], flags: ["insult"], unfluent: [3] },
    }));
    expect(await explain(reward, conversation)).toMatchObject({
      score: 0.75,
      turns: [{ turn: 1, score: 0.25, role: "assistant", said: 'find_order({"id":"A1"})' }],
      why: ["brief", "no tool was called", "flagged: insult", "turn 3: no language to the reference model"],
      parts: [],
    });
    const long = rewardFunction(() => ({ score: 0, turns: { 0: 1 } }));
    const words = await explain(long, { turns: [{ role: "user", content: "word ".repeat(30) }] });
    expect(words.turns[0]!.said).toHaveLength(60);
  });

  it("looks inside a reward whose scores are kept", async () => {
    const cached = cachedReward(new CompositeReward([new StateReward({ partial: 1 })]));
    await cached.compute(conversation);
    expect((await explain(cached, conversation)).parts).toMatchObject([{ name: "state", score: 0.5 }]);
  });

  it("refuses a reward or a conversation that is none", async () => {
    const bare = explain as (...given: unknown[]) => Promise<unknown>;
    await expect(bare()).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringMatching(/got no reward\. Give both/),
    });
    await expect(bare(() => 1, conversation)).rejects.toThrow("explain() got no reward");
    await expect(bare(new StateReward())).rejects.toThrow("explain() got no conversation");
    await expect(bare(new StateReward(), turns)).rejects.toThrow("explain() got no conversation");
  });

  it("throws when it is stopped", async () => {
    const stopped = AbortSignal.abort(new Error("stopped"));
    const reward = rewardFunction((_, { signal }) => {
      signal!.throwIfAborted();
      return 1;
    });
    await expect(explain(reward, conversation, { signal: stopped })).rejects.toThrow("stopped");
  });
});
