import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FunctionReward, politeShare, quickRun, tableAgent } from "../test-support/table-training.ts";
import { train } from "../training/train.ts";
import { forkRun } from "./fork.ts";
import { claimFolder, findPlace } from "./place.ts";
import { abandonedIn, findRun, listRuns } from "./read-run.ts";
import { checkRunName } from "./run-id.ts";

const root = mkdtempSync(join(tmpdir(), "runs-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const reward = () => new FunctionReward(politeShare);
const run = (name: string) =>
  train({ ...quickRun, agent: tableAgent().agent, reward: reward(), name, dir: join(root, name), steps: 2 });

it("count as runs, interrupted ones, while they have only sampled what to learn from", () => {
  const dir = join(root, "apart");
  mkdirSync(join(dir, "best", "harvest"), { recursive: true });
  expect(listRuns(dir)).toMatchObject([{ id: "best", state: "interrupted", problem: undefined }]);
  rmSync(dir, { recursive: true });
});

describe("the runs in a folder", () => {
  beforeAll(async () => {
    await run("first");
    await run("second");
  });

  it("are listed by their start, whatever was touched since", () => {
    const config = readFileSync(join(root, "first", "metrics.jsonl"));
    writeFileSync(join(root, "first", "metrics.jsonl"), config);
    expect(listRuns(root).map(({ id, state, step, steps }) => [id, state, step, steps])).toEqual([
      ["second", "finished", 2, 2],
      ["first", "finished", 2, 2],
    ]);
    expect(findRun(root, "last", root).id).toBe("second");
  });

  it("are seen when they were killed before their first step, and a damaged one is in nobody's way", () => {
    mkdirSync(join(root, "young"));
    writeFileSync(
      join(root, "young", "status.json"),
      JSON.stringify({ state: "running", pid: 2 ** 30, host: "h", startedAt: 1, heartbeatAt: 1, step: 0, steps: 5 }),
    );
    writeFileSync(join(root, "young", "config.json"), readFileSync(join(root, "first", "config.json")));
    mkdirSync(join(root, "broken"));
    writeFileSync(join(root, "broken", "config.json"), '{"version": 2, "id"');
    writeFileSync(join(root, "broken", "metrics.jsonl"), '{"step":1,"reward":0.5}\n{"step":2,"rew');
    const found = new Map(listRuns(root).map((info) => [info.dir, info]));
    expect(found.get(join(root, "young"))).toMatchObject({ state: "lost", step: 0, steps: 5, problem: undefined });
    expect(found.get(join(root, "broken"))).toMatchObject({
      id: "broken",
      config: undefined,
      problem: expect.stringContaining("config.json cannot be read"),
      metrics: [{ step: 1, reward: 0.5 }],
    });
    expect(found.size).toBe(4);
  });

  it.each([
    ["metrics.jsonl", "null\n"],
    ["status.json", "null"],
    ["status.json", "{}"],
    ["lock", "null"],
    ["config.json", '{"version":2,"settings":null}'],
    ["config.json", '{"version":2,"settings":{}}'],
    ["checkpoints", "a file"],
    ["metrics.jsonl", undefined],
    ["checkpoints/best", undefined],
  ])("are in nobody's way with %s as %j", (file, content) => {
    const runs = mkdtempSync(join(root, "odd-"));
    cpSync(join(root, "first"), join(runs, "odd"), { recursive: true });
    rmSync(join(runs, "odd", file), { recursive: true, force: true });
    if (content === undefined) mkdirSync(join(runs, "odd", file));
    else writeFileSync(join(runs, "odd", file), content);
    const [info] = listRuns(runs);
    expect(info).toMatchObject({ id: expect.stringMatching(/first|odd/), state: "finished" });
    expect(Number.isFinite(info!.startedAt)).toBe(true);
    if (info!.config) expect(info!.config.model.name).toBeTypeOf("string");
  });

  it("are not what a process that was killed left of one", () => {
    const runs = mkdtempSync(join(root, "left-"));
    const left = `.tmp-${2 ** 30}-fork`;
    cpSync(join(root, "first"), join(runs, left), { recursive: true });
    cpSync(join(root, "first"), join(runs, `.tmp-${process.pid}-fork`), { recursive: true });
    expect(listRuns(runs)).toEqual([]);
    expect(abandonedIn(runs)).toEqual([join(runs, left)]);
  });
});

describe("a place for a run", () => {
  it("is another one for each of many that begin in the same second", () => {
    const runs = join(root, "many");
    const ids = Array.from({ length: 20 }, () => claimFolder(runs, "grpo").id);
    expect(new Set(ids).size).toBe(20);
    expect(readdirSync(runs).sort()).toEqual([...ids].sort());
  });

  it("is not where somebody keeps something else", async () => {
    const resumeFrom = join(root, "first");
    const dir = join(root, "thesis");
    mkdirSync(dir);
    writeFileSync(join(dir, "chapter-1.txt"), "years of work");
    await expect(findPlace({ resumeFrom, dir }, "grpo")).rejects.toThrow(`${dir} already holds something else`);
    // Also where it came there while the new run was being copied.
    await expect(forkRun(resumeFrom, dir, "thesis")).rejects.toMatchObject({ code: "WRITE_FAILED" });
    expect(readdirSync(dir)).toEqual(["chapter-1.txt"]);
    rmSync(join(dir, "chapter-1.txt"));
    await findPlace({ resumeFrom, dir }, "grpo");
    expect(existsSync(join(dir, "config.json"))).toBe(true);
    rmSync(join(dir, "config.json"));
    // A run whose configuration is gone is not added to.
    await expect(findPlace({ dir }, "grpo")).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });

  it("has a name that stays in its folder", async () => {
    for (const name of ["a/../../x", "..", ".hidden", "a/b", "a\\b", "", "x".repeat(121), "a\nb", "-rf"]) {
      expect(() => checkRunName(name), name).toThrow(/cannot be the name of a run/);
    }
    for (const name of ["polite-1", "Höflich 2", "v1.2_b+c"]) expect(checkRunName(name)).toBe(name);
    await expect(findPlace({ name: "../x" }, "grpo")).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });
});
