import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../../test-support/table-training.ts";
import { train } from "../../training/train.ts";
import type { TrainOptions } from "../../training/train-options.ts";
import {
  type CompareSeriesHead,
  compareSchema,
  configSchema,
  decodePacked,
  evaluationsSchema,
  eventsSchema,
  groupSchema,
  liveConversationsSchema,
  runRowSchema,
  runSchema,
  runsSchema,
  type SeriesHead,
  trajectoriesSchema,
  trajectorySchema,
} from "../api/index.ts";
import { createReader } from "./create-reader.ts";
import { openReader } from "./open-reader.ts";
import type { Reader } from "./reader.ts";

const root = temporaryFolder();
const runs = join(root, "runs");
const options = { folders: [runs], cacheDir: join(root, "cache") };
const reader = createReader(options);
const heldOut = Array.from({ length: 12 }, (_, i) => ({ id: `held-${i}`, userResponses: ["help card", "order no"] }));

async function trained(name: string, more: Record<string, unknown> = {}) {
  await train({
    learningRate: 0.3,
    groupsPerStep: 4,
    groupSize: 4,
    steps: 6,
    dir: join(runs, name),
    name,
    agent: tableAgent().agent,
    environment: tableEnvironment(),
    reward: new FunctionReward(politeShare),
    heldOut,
    evaluation: { every: 2, samples: 4 },
    trajectories: { every: 2, perStep: 4, tokens: true },
    ...more,
  } as TrainOptions);
}

beforeAll(async () => {
  await trained("one");
  await trained("two", { seed: 1 });
  await trained("other", { algorithm: "rloo", learningRate: 0.1 });
}, 120_000);

const linesOf = (name: string, file: string) =>
  readFileSync(join(runs, name, file), "utf8")
    .trim()
    .split("\n")
    .map((text) => JSON.parse(text) as Record<string, number>);
const refused = (status: number, message: RegExp) => ({ status, message: expect.stringMatching(message) as string });

describe("a reader of real runs", { timeout: 60_000 }, () => {
  it("lists them with what their files say", async () => {
    const list = await reader.runs({});
    runsSchema.omit({ readOnly: true }).parse(list);
    expect(list.rows.map(({ key }) => key).sort()).toEqual(["one", "other", "two"]);
    for (const row of list.rows) {
      const last = linesOf(row.key, "metrics.jsonl").at(-1)!;
      expect(row).toMatchObject({ state: "finished", step: 6, steps: 6, reward: last.reward, problems: [] });
      expect(row.curve.points).toHaveLength(6);
      const events = (await reader.events(row.key)).events.filter(
        (one) => one.type === "evaluation" && one.set === "report",
      );
      expect(row.heldOut).toMatchObject({
        metric: "report/reward",
        before: events[0]!.reward,
        after: events.at(-1)!.reward,
      });
      expect(runRowSchema.parse(await reader.run(row.key))).toEqual(row);
    }
    const found = await reader.runs({ filter: "algorithm = rloo", group: "learningRate", sort: "-seed" });
    expect(found.rows.map(({ key, group }) => [key, group])).toEqual([["other", "0.1"]]);
    await expect(reader.runs({ sort: "lerningRate" })).rejects.toMatchObject(
      refused(400, /Did you mean "learningRate"/),
    );
    await expect(reader.runs({ cursor: "nonsense" })).rejects.toMatchObject(refused(400, /cursor/));
  });

  it("answers all of one run in the shapes of the contract", async () => {
    const run = await reader.run("one");
    runSchema.omit({ readOnly: true, stop: true, resume: true }).parse(run);
    expect(run.recordedSteps).toEqual([1, 3, 5]);
    expect(run.metrics.find(({ name }) => name === "reward")).toMatchObject({ unit: "reward", count: 6 });
    expect(run.files.map(({ name }) => name)).toContain("metrics.jsonl");
    const config = configSchema.parse(await reader.config("one"));
    expect(config.changed).toContainEqual({ path: "steps", value: 6, default: 100 });
    eventsSchema.parse(await reader.events("one"));
    liveConversationsSchema.parse(await reader.live("one"));
    const { evaluations, changes } = evaluationsSchema.parse(await reader.evaluations("one"));
    expect(evaluations.every(({ scenarios, set }) => set === "held-out" || scenarios.length > 0)).toBe(true);
    expect(changes.map(({ set }) => set)).toEqual(["report", "selection"]);
    const [report] = changes;
    const sorted = report!.scenarios.map(({ change }) => change!);
    expect(sorted).toEqual([...sorted].sort((a, b) => a - b));
    expect(report!.difference.mean).toBeCloseTo(sorted.reduce((a, b) => a + b, 0) / sorted.length, 12);
  });

  it("gives curves over steps, time and tokens, and refuses names that are none", async () => {
    const metrics = linesOf("one", "metrics.jsonl").filter(({ step }) => step! > 0);
    const timing = linesOf("one", "timing.jsonl");
    const read = async (query: Record<string, string>) =>
      decodePacked<SeriesHead>((await reader.series("one", query)).buffer);
    const { head, columns } = await read({ metrics: "reward,selection/reward" });
    expect(head).toMatchObject({ x: "step", capped: false });
    expect([...columns["reward.x"]!]).toEqual([1, 2, 3, 4, 5, 6]);
    expect([...columns["reward.mean"]!]).toEqual(metrics.map(({ reward }) => Math.fround(reward!)));
    expect([...columns["selection/reward.x"]!]).toEqual([0, 2, 4, 6]);
    const over = async (x: string) => [...(await read({ metrics: "reward", x })).columns["reward.x"]!];
    let [tokens, seconds] = [0, 0];
    expect(await over("tokens")).toEqual(metrics.map(({ sampledTokens }) => (tokens += sampledTokens!)));
    const took = timing.map(
      ({ rolloutMs, updateMs, otherMs }) => (seconds += (rolloutMs! + updateMs! + otherMs!) / 1000),
    );
    for (const [i, x] of (await over("time")).entries()) expect(x).toBeCloseTo(took[i]!, 4);
    const zoomed = await read({ metrics: "reward", from: "2.5", to: "5", points: "9999" });
    expect([...zoomed.columns["reward.x"]!]).toEqual([3, 4, 5]);
    expect(zoomed.head.capped).toBe(true);
    const few = await read({ metrics: "reward", points: "3" });
    expect(few.head.metrics).toEqual([{ name: "reward", span: 3 }]);
    expect(few.columns["reward.x"]).toHaveLength(3);
    await expect(reader.series("one", { metrics: "reward,rewrd" })).rejects.toMatchObject(
      refused(400, /Did you mean "reward"/),
    );
    const csv = (await reader.csv("one", ["reward", "loss"])).split("\r\n");
    expect(csv[0]).toBe("step,reward,loss");
    expect(csv[2]).toBe(`1,${metrics[0]!.reward},${metrics[0]!.loss}`);
  });

  it("finds conversations by what they are, page by page", async () => {
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = trajectoriesSchema.parse(
        await reader.trajectories("one", { ...(cursor !== undefined && { cursor }) }),
      );
      seen.push(...page.rows.map(({ key }) => key));
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
    const written = [1, 3, 5].flatMap((step) => linesOf("one", `trajectories/step-00000${step}.jsonl`));
    expect(new Set(seen).size).toBe(written.length);
    const [named, { id }] = [await reader.trajectories("one", { scenarioHas: "" }), { id: written[0]!.scenarioId }];
    expect(named.rows.some(({ scenario }) => scenario === String(id))).toBe(true);
    const part = await reader.trajectories("one", { scenarioHas: String(id).slice(1).toUpperCase() });
    expect(new Set(part.rows.map(({ scenario }) => scenario))).toContain(String(id));
    expect((await reader.trajectories("one", { scenarioHas: "no such name" })).rows).toEqual([]);
    const { rows, total } = await reader.trajectories("one", { sort: "-reward", reward: ">0" });
    expect(total).toBe(written.filter(({ reward }) => (reward as unknown as { score: number }).score > 0).length);
    expect(rows.map(({ reward }) => reward)).toEqual(rows.map(({ reward }) => reward!).sort((a, b) => b - a));
    const polite = await reader.trajectories("one", { text: "PLEASE", step: "1" });
    expect(polite.rows.length).toBeGreaterThan(0);
    for (const { key } of polite.rows) {
      const one = trajectorySchema.parse(await reader.trajectory(key));
      expect(one.record.messages.some(({ content }) => content.includes("please"))).toBe(true);
    }
    await expect(reader.trajectories("one", { reward: "much" })).rejects.toMatchObject(
      refused(400, /range of rewards/),
    );
    await expect(reader.trajectories("one", { cursor: "x", step: "1" })).rejects.toMatchObject(refused(400, /cursor/));
    const evaluated = await reader.trajectories("one", { set: "evaluation" });
    expect(evaluated.rows[0]!.key).toBe("one:e0:0");
    trajectorySchema.parse(await reader.trajectory("one:e0:0"));
    await expect(reader.tokens("one:e0:0")).rejects.toMatchObject({ status: 409 });
  });

  it("shows a group as a tree that leads to all its conversations", async () => {
    const { rows } = await reader.trajectories("one", { step: "3" });
    for (const key of new Set(rows.map(({ group }) => group!))) {
      const group = groupSchema.parse(await reader.group(key));
      expect(group.members).toHaveLength(4);
      const tree = group.tree!;
      expect(tree[0]).toMatchObject({ parent: -1, members: [0, 1, 2, 3] });
      group.members.forEach((member, i) => {
        const passed = tree.filter(({ members }) => members.includes(i));
        expect(passed.reduce((sum, { tokens }) => sum + tokens, 0)).toBe(member.tokens);
      });
    }
    await expect(reader.group("one:3:nobody")).rejects.toMatchObject({ status: 404 });
  });

  it("compares runs, folds those that differ by their seed, and takes one from the other", async () => {
    const compared = compareSchema.parse(await reader.compare({ runs: "one,two,other" }));
    expect(compared.settings.find(({ path }) => path === "settings.seed")!.values).toEqual([0, 1, 0]);
    expect(compared.pairs).toHaveLength(3);
    expect(compared.scenarios.length).toBeGreaterThan(0);
    const curve = async (query: Record<string, string>) =>
      decodePacked<CompareSeriesHead>(
        (await reader.compareSeries({ runs: "one,two,other", metric: "reward", ...query })).buffer,
      );
    const { columns, head } = await curve({ fold: "seeds" });
    expect(head.families).toEqual([
      { name: "one (2 seeds)", runs: ["one", "two"], x: "0.x" },
      { name: "other", runs: ["other"], x: expect.stringMatching(/^[01]\.x$/) },
    ]);
    const [a, b] = ["one", "two"].map((name) =>
      linesOf(name, "metrics.jsonl")
        .filter(({ step }) => step! > 0)
        .map(({ reward }) => reward!),
    );
    columns["0.mean"]!.forEach((mean, i) => {
      expect(mean).toBeCloseTo((a![i]! + b![i]!) / 2, 6);
      // t with one degree of freedom at 95%, standard error of two values.
      expect(columns["0.high"]![i]! - mean).toBeCloseTo((12.7062 * Math.abs(a![i]! - b![i]!)) / 2, 3);
    });
    expect(columns["1.low"]).toBeUndefined();
    const steps = (name: string) =>
      linesOf(name, "metrics.jsonl")
        .filter(({ reward }) => typeof reward === "number")
        .map(({ step }) => step);
    const each = await curve({});
    expect(each.head.families.map(({ x }) => [...each.columns[x]!])).toEqual(["one", "two", "other"].map(steps));
    // Said once where it is the same.
    expect(each.head.families[1]!.x).toBe("0.x");
    expect([each.head.capped, (await curve({ points: "9999" })).head.capped]).toEqual([false, true]);
    const unnamed = await reader.compareSeries({ runs: "one,two,other" });
    expect(unnamed).toEqual(await reader.compareSeries({ runs: "one,two,other", metric: "reward" }));
    const difference = await curve({ base: "one" });
    expect([...difference.columns["0.mean"]!]).toEqual([0, 0, 0, 0, 0, 0]);
    for (const [i, value] of difference.columns["1.mean"]!.entries()) expect(value).toBeCloseTo(b![i]! - a![i]!, 6);
    await expect(reader.compareSeries({ runs: "one,two", metric: "rewrd" })).rejects.toMatchObject(
      refused(400, /Did you mean/),
    );
  });

  it("answers the same from a thread of its own, refusals too, and leaves its indexes behind", async () => {
    rmSync(options.cacheDir, { recursive: true, force: true });
    const thread = await openReader(options);
    try {
      const asked: ((of: Reader) => Promise<unknown>)[] = [
        (of) => of.runs({}),
        (of) => of.run("one"),
        (of) => of.series("one", { metrics: "reward" }),
        (of) => of.tokens("one:1:0"),
        (of) => of.trajectories("one", {}),
        (of) => of.evaluations("two"),
        (of) => of.dirOf("two"),
      ];
      for (const ask of asked) expect(await ask(thread)).toEqual(await ask(reader));
      const refusal = await thread.run("../one").catch((error: unknown) => error);
      expect(refusal).toMatchObject({ name: "HttpError", status: 404 });
      await expect(thread.runs({ filter: "(" })).rejects.toMatchObject(refused(400, /column 2/));
      expect(await thread.changes()).toEqual([]);
    } finally {
      await thread.close();
    }
    expect(readdirSync(options.cacheDir)).toHaveLength(3);
    await expect(thread.runs({})).rejects.toThrow(/closed/);
  });
});
