/** `npm run bench:tools`: its plan, one small run of each kind of learning, and what the page makes of runs. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MultiTurnAgent } from "stateset-agents";
import { taskClasses } from "stateset-agents/tools";
import { afterAll, describe, expect, it } from "vitest";
import type { JobRow } from "../benchmarks/parallel.ts";
import { askedCalls, measureDialogues } from "../benchmarks/tools/dialogues.ts";
import { type Learnt, learnTools, type ToolsJob, type ToolsResult } from "../benchmarks/tools/learn.ts";
import { estimate, perTask, type ToolsRun } from "../benchmarks/tools/measures.ts";
import { jobsOf, pageSeeds, settingsOf, starter } from "../benchmarks/tools/plan.ts";
import { plot } from "../benchmarks/tools/plot.ts";
import { page } from "../benchmarks/tools/report.ts";

const folder = mkdtempSync(join(tmpdir(), "tools-bench-"));
afterAll(() => rmSync(folder, { recursive: true }));

const job = (more: Partial<ToolsJob> = {}): ToolsJob => ({
  ...{ model: starter, domain: "retail", level: 1, way: "grpo", seed: pageSeeds[0]! },
  ...more,
});

/** `solved` by class: how many of the four conversations of each of its five tasks. */
function run(solved: readonly number[], more: Partial<ToolsJob> = {}): ToolsRun {
  const result: Learnt = {
    ...{ solved: Array.from({ length: 20 }, (_, i) => solved[i % 4]!), calls: 100, failures: { unknown_tool: 7 } },
    ...{ steps: 1, conversations: 32, training: null, trainingSeconds: 5 },
    constrained: { solved: Array.from({ length: 20 }, () => 4), calls: 90, failures: {} },
  };
  return { settings: "x", job: job(more), result, seconds: 6, cpuSeconds: 60, machine: "a machine" };
}

describe("the plan of bench:tools", () => {
  it("has every class of comparison, three seeds each, and the same jobs for the same settings", () => {
    const jobs = jobsOf({ model: starter, seeds: pageSeeds, quick: false });
    expect(new Set(jobs.map((one) => JSON.stringify(one))).size).toBe(jobs.length);
    const ways = (domain: string, level: number) =>
      new Set(jobs.filter((one) => one.domain === domain && one.level === level).map(({ way }) => way));
    expect(ways("booking", 1)).toEqual(new Set(["untrained", "grpo", "flipped", "best-of-n"]));
    for (const way of ["sft-60", "sft-240", "sft-960", "sft-240-grpo", "credit-turn", "credit-state", "curriculum"])
      expect(ways("retail", 1)).toContain(way);
    expect(jobs.filter(({ dialogues }) => dialogues).map(({ way, seed }) => [way, seed])).toEqual([
      ["untrained", 0],
      ...pageSeeds.map((seed) => ["grpo", seed]),
    ]);
  });

  it("tells settings apart by what decides a result: sizes, tasks, ways", () => {
    const all = [
      job(),
      job({ quick: true }),
      job({ level: 2 }),
      job({ way: "curriculum" }),
      job({ domain: "booking" }),
    ];
    expect(new Set(all.map((one) => JSON.stringify(settingsOf(one)))).size).toBe(all.length);
    expect(settingsOf(job({ seed: pageSeeds[1]! }))).toEqual(settingsOf(job()));
  });
});

describe("a run of bench:tools", () => {
  const sizes = { steps: 1, trainingTasks: 2, heldOutTasks: 4, updates: 1, demonstrations: 1 / 60, calls: 2 };

  it("imitates an oracle, then learns by GRPO, and is measured by class", async () => {
    const result = (await learnTools(job({ way: "sft-240-grpo" }), sizes)) as Learnt;
    expect(result.solved).toHaveLength(sizes.heldOutTasks);
    expect(result.solved.every((count) => count >= 0 && count <= 4)).toBe(true);
    expect([result.steps, result.conversations]).toEqual([2, 32]);
    expect(Object.keys(result.training!)).toEqual([...taskClasses]);
    expect(result.calls).toBeGreaterThan(0);
  }, 120_000);
});

describe("calls of the dialogues", () => {
  const call = (name: string, args: object) => ({
    role: "assistant",
    content: "",
    tool_calls: [{ name, arguments: args }],
  });
  const tool = (name: string, source = "sgd") => ({
    ...{ source, type: "function" },
    function: { name, parameters: { type: "object", properties: { city: { type: "string" } } } },
  });
  const file = join(folder, "dev.jsonl");
  const dialogue = (id: string, name: string) => ({
    ...{ id, source: "sgd" },
    messages: [
      { role: "system", content: "You are a helpful assistant." },
      { role: "user", content: "What is the weather in Fremont?" },
      call(name, { city: "Fremont" }),
      { role: "tool", name, content: '{"temperature": 60}' },
      { role: "assistant", content: "It is 60 degrees." },
      { role: "user", content: "And in Oakland?" },
      call(name, { city: "Oakland" }),
    ],
  });
  const names = ["GetWeather", "FindBus", "FindMovies", "GetRide", "FindEvents"];
  writeFileSync(
    join(folder, "tools.json"),
    JSON.stringify([...names.map((name) => tool(name)), tool("other", "star")]),
  );
  writeFileSync(
    file,
    [dialogue("a", "GetWeather"), dialogue("b", "GetWeather")].map((one) => JSON.stringify(one)).join("\n"),
  );

  it("are asked for after all that came before, with three other tools of the corpus", () => {
    const asked = askedCalls(file);
    expect(asked.map(({ before, expected }) => [before.length, expected.arguments.city])).toEqual([
      [2, "Fremont"],
      [6, "Oakland"],
      [2, "Fremont"],
      [6, "Oakland"],
    ]);
    for (const { tools } of asked) {
      const shown = tools.map((one) => one.function.name);
      expect(shown).toHaveLength(4);
      expect(shown).toContain("GetWeather");
      expect(shown).not.toContain("other");
    }
    expect(askedCalls(file, 2).map(({ expected }) => expected.arguments.city)).toEqual(["Fremont", "Fremont"]);
  });

  it("are counted by source: the starter model knows this tool", async () => {
    const agent = new MultiTurnAgent({ threads: 1 });
    const { sgd } = await measureDialogues(agent, file);
    await agent.close();
    expect(sgd!.calls).toBe(4);
    expect(sgd!.tool).toBeGreaterThan(0);
    expect(sgd!.all).toBeLessThanOrEqual(sgd!.tool);
  }, 60_000);
});

describe("the page of bench:tools", () => {
  const untrained = run([1, 0, 0, 2], { way: "untrained", seed: 0 });
  const grpo = [run([4, 4, 4, 4]), run([4, 2, 4, 4], { seed: pageSeeds[1]! })];

  it("takes tasks, not conversations, as independent, and counts pass^4 by all four", () => {
    expect(perTask(grpo, "act")).toEqual([0.75, 0.75, 0.75, 0.75, 0.75]);
    expect(estimate(grpo, "act")).toMatchObject({ mean: 0.75, count: 5 });
    expect(estimate(grpo, "act", "every").mean).toBe(0.5);
    expect(estimate(grpo, "all").count).toBe(20);
  });

  it("says how many seeds have every class at 0.8, and what has not been run", () => {
    const text = page([untrained, ...grpo]);
    expect(text).toContain(
      "`grpo` has every class at 0.8 or above with 1 of 2 seeds; the lowest class of each ended at 1.000, 0.500.",
    );
    expect(text).toMatch(/\| `grpo` \| 1\.00 \[.*\] \| 0\.75 \[.* \| 32 \| GRPO as `train\(\)` does it \|/);
    expect(text).toMatch(/\| pass\^4 .*\n.*\n\| `untrained` .*\n\| `grpo` \| 1\.00 \[[^|]*\| 0\.50 \[/);
    expect(text).toMatch(/retail 1 \| `grpo` \| 0\.94 \| 100 \| 7\.0% \|/);
    expect(text).toMatch(/retail 1 \| `grpo`, `constrain` \| 1\.00 \| 90 \| 0\.0% \|/);
    const left = text.slice(text.indexOf("## Not run yet"));
    expect(left).toContain(`- retail 1, \`grpo\`: seeds ${pageSeeds[2]}\n`);
    expect(left).toContain(`- booking 1, \`flipped\`: seeds ${pageSeeds.join(", ")}`);
    expect(left).not.toContain("- retail 1, `untrained`\n");
    expect(plot([untrained, ...grpo])).toContain(">grpo</text>");
  });

  it("compares booking in pairs, and says nothing of what was not run", () => {
    const booking = { domain: "booking" as const };
    const some = [run([1, 1, 1, 1], { ...booking, way: "untrained", seed: 0 }), run([4, 4, 4, 4], booking)];
    expect(page(some)).toContain(
      "Success rises beyond its interval. Differences in pairs, task by task: after GRPO +0.75",
    );
    expect(page(some)).not.toContain("sign flipped +");
    expect(page(some)).not.toContain("## The shop");
  });

  it("sets calls of the dialogues before and after beside each other", () => {
    const elsewhere = (way: "untrained" | "grpo", tool: number): JobRow<ToolsJob, ToolsResult> => ({
      ...run([0, 0, 0, 0], { way, dialogues: true }),
      result: { dialogues: { sgd: { calls: 10, tool, all: 5 }, star: { calls: 10, tool: 10, all: 10 } } },
    });
    expect(page([elsewhere("untrained", 9), elsewhere("grpo", 7)])).toMatch(
      /\| sgd \| 10 \| 90% \| 50% \| 70% \| 50% \|\n\| star .*\n\| all \| 20 \| 95% \| 75% \| 85% \| 75% \|/,
    );
  });
});
