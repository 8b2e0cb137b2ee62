import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../../test-support/table-training.ts";
import { train } from "../../training/train.ts";
import type { TrainOptions } from "../../training/train-options.ts";
import { createReader } from "./create-reader.ts";
import type { Change, Reader } from "./reader.ts";

const root = temporaryFolder();
let runs: string;
let reader: Reader;
let number = 0;
beforeEach(() => {
  runs = join(root, `runs-${++number}`);
  mkdirSync(runs);
  reader = createReader({ folders: [runs], cacheDir: join(root, `cache-${number}`) });
});

const status = (name: string, own: object) => {
  const now = Date.now();
  const whole = {
    state: "running",
    pid: process.pid,
    host: hostname(),
    startedAt: 1,
    heartbeatAt: now,
    step: 0,
    steps: 9,
    ...own,
  };
  writeFileSync(join(runs, name, "status.json"), JSON.stringify(whole));
};
const line = (step: number, reward = step / 10) => `${JSON.stringify({ step, reward })}\n`;
const make = (name: string) => {
  mkdirSync(join(runs, name));
  writeFileSync(
    join(runs, name, "config.json"),
    JSON.stringify({ version: 2, id: name, learner: "rl", settings: {}, model: { name: "m" } }),
  );
  status(name, {});
};
/** Of one kind. */
const of = <K extends Change["kind"]>(changes: readonly Change[], kind: K) =>
  changes.flatMap((change) => (change.kind === kind ? [change.event as Extract<Change, { kind: K }>["event"]] : []));

describe("an index on the disk", () => {
  const kept = () => readdirSync(join(root, `cache-${number}`)).filter((name) => name.endsWith(".index"));
  const again = async () => {
    await reader.close();
    reader = createReader({ folders: [runs], cacheDir: join(root, `cache-${number}`) });
    await reader.changes();
  };

  it("goes with its run, while it is looked at or not", async () => {
    for (const name of ["seen", "unseen", "stays"]) {
      make(name);
      appendFileSync(join(runs, name, "metrics.jsonl"), line(1));
      await reader.series(name, { metrics: "reward" });
    }
    await again();
    expect(kept()).toHaveLength(3);
    rmSync(join(runs, "seen"), { recursive: true });
    await reader.changes();
    expect(kept()).toHaveLength(2);
    rmSync(join(runs, "unseen"), { recursive: true });
    await again();
    expect(kept()).toHaveLength(1);
  });
});

describe("what happened since", { timeout: 60_000 }, () => {
  it("is nothing at first, and then runs that come, go on and go away", async () => {
    make("old");
    expect(await reader.changes()).toEqual([]);
    expect(await reader.changes()).toEqual([]);
    make("new");
    expect(of(await reader.changes(), "runs")).toMatchObject([{ rows: [{ key: "new" }], gone: [] }]);
    appendFileSync(join(runs, "new", "metrics.jsonl"), line(1) + line(2));
    const grown = await reader.changes();
    expect(of(grown, "steps")).toEqual([{ run: "new", step: 2, cut: false }]);
    expect(of(grown, "runs")[0]!.rows).toMatchObject([{ key: "new", step: 2, reward: 0.2 }]);
    expect(await reader.changes()).toEqual([]);
    rmSync(join(runs, "old"), { recursive: true });
    expect(of(await reader.changes(), "runs")).toEqual([{ rows: [], gone: ["old"] }]);
    await expect(reader.run("old")).rejects.toMatchObject({ status: 404 });
  });

  it("tells of a heartbeat alone nothing, and of one that stays away that the run is lost", async () => {
    make("silent");
    await reader.changes();
    status("silent", { heartbeatAt: Date.now() + 1 });
    expect(await reader.changes()).toEqual([]);
    vi.useFakeTimers({ now: Date.now() + 16_000, toFake: ["Date"] });
    try {
      expect(of(await reader.changes(), "runs")[0]!.rows).toMatchObject([{ key: "silent", state: "lost" }]);
      expect(await reader.changes()).toEqual([]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("says to where a resumed run was cut back", async () => {
    make("cut");
    const metrics = join(runs, "cut", "metrics.jsonl");
    writeFileSync(metrics, [1, 2, 3, 4, 5].map((step) => line(step)).join(""));
    await reader.changes();
    truncateSync(metrics, (line(1) + line(2)).length);
    expect(of(await reader.changes(), "steps")).toEqual([{ run: "cut", step: 2, cut: true }]);
    appendFileSync(metrics, line(3, 9));
    expect(of(await reader.changes(), "steps")).toEqual([{ run: "cut", step: 3, cut: false }]);
    // Cut and grown again between two looks.
    truncateSync(metrics, line(1).length);
    appendFileSync(metrics, [2, 3, 4].map((step) => line(step, -1)).join(""));
    expect(of(await reader.changes(), "steps")).toEqual([
      { run: "cut", step: 1, cut: true },
      { run: "cut", step: 4, cut: false },
    ]);
  });

  it("notices a run that is over and taken up again, and notes that are written of it", async () => {
    make("over");
    status("over", { state: "finished" });
    await reader.changes();
    writeFileSync(
      join(runs, "over", "notes.json"),
      JSON.stringify({ version: 1, tags: ["good"], note: "", archived: false, changedAt: 1 }),
    );
    const seen: Change[] = [];
    for (let i = 0; i < 5; i++) seen.push(...(await reader.changes()));
    expect(of(seen, "runs").flatMap(({ rows }) => rows)).toMatchObject([{ key: "over", tags: ["good"] }]);
    status("over", { state: "running" });
    expect(of(await reader.changes(), "runs")[0]!.rows).toMatchObject([{ state: "running" }]);
  });

  it("tells of a run that is taken up again what ends from then on", async () => {
    make("again");
    status("again", { state: "interrupted" });
    const live = join(runs, "again", "live.jsonl");
    const played = (seq: number, id: string) =>
      `${JSON.stringify({ type: "conversation", seq, at: seq, step: seq, id, group: "g", messages: [], ended: "done" })}\n`;
    writeFileSync(live, played(1, "a") + played(2, "b").slice(0, 20));
    expect(await reader.changes()).toEqual([]);
    status("again", { state: "running" });
    appendFileSync(live, `\n${played(3, "c")}`);
    const told = of(await reader.changes(), "conversations").flatMap(({ conversations }) => conversations);
    expect(told.map(({ id }) => id)).toEqual(["c"]);
    appendFileSync(live, played(4, "d"));
    status("again", { state: "finished" });
    expect(of(await reader.changes(), "conversations")).toMatchObject([{ conversations: [{ id: "d" }] }]);
  });

  it("tells each conversation of a real run as it ends and is rewarded, nothing missing and nothing twice", async () => {
    await reader.changes();
    const told = new Map<string, number | null>();
    const steps: number[] = [];
    const listen = async () => {
      const changes = await reader.changes();
      for (const { conversations } of of(changes, "conversations"))
        for (const { id, reward } of conversations) told.set(id, reward);
      steps.push(...of(changes, "steps").map(({ step }) => step));
    };
    const { run } = await train({
      learningRate: 0.3,
      groupsPerStep: 2,
      groupSize: 3,
      steps: 3,
      dir: join(runs, "live"),
      agent: tableAgent().agent,
      environment: tableEnvironment(),
      reward: new FunctionReward(politeShare),
      trajectories: { every: 1, perStep: 2 },
      callbacks: { onRollouts: listen, onStepEnd: listen },
    } as TrainOptions);
    for (let i = 0; i < 5; i++) await listen();
    expect(run.status).toBe("finished");
    expect(steps).toEqual([1, 2, 3]);
    const written = [1, 2, 3].flatMap((step) =>
      readFileSync(join(runs, "live", "trajectories", `step-00000${step}.jsonl`), "utf8")
        .trim()
        .split("\n")
        .map((text) => JSON.parse(text) as { id: string; reward: { score: number } }),
    );
    expect([...told].sort()).toEqual(written.map(({ id, reward }) => [id, reward.score]).sort());
    const { conversations } = await reader.live("live");
    expect(conversations.map(({ id }) => id).sort()).toEqual([...told.keys()].sort());
    // A copy of it elsewhere calls itself the same: both say so.
    cpSync(join(runs, "live"), join(runs, "copy"), { recursive: true });
    const { rows } = await reader.runs({});
    expect(rows.map(({ problems }) => problems.some(({ message }) => /the same id/.test(message)))).toEqual([
      true,
      true,
    ]);
  });
});
