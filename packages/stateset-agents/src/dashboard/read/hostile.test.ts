import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { writeTrajectories } from "../../run/trajectories.ts";
import { decodePacked, type SeriesHead, type TokensHead, trajectorySchema } from "../api/index.ts";
import { createReader } from "./create-reader.ts";

const root = temporaryFolder();
const runs = join(root, "runs");
const reader = createReader({ folders: [runs], cacheDir: join(root, "cache") });

function make(name: string, files: Record<string, string> = {}): string {
  const dir = join(runs, name);
  mkdirSync(join(dir, "trajectories"), { recursive: true });
  const config = JSON.stringify({ version: 2, id: name, learner: "rl", model: { name: "m" }, settings: { seed: 0 } });
  for (const [file, text] of Object.entries({ "config.json": config, ...files })) writeFileSync(join(dir, file), text);
  return dir;
}
const record = (id: string, content: string, more: object = {}) =>
  JSON.stringify({
    id,
    group: "g",
    step: 1,
    messages: [
      { role: "user", content: "?" },
      { role: "assistant", content },
    ],
    chains: [],
    ...more,
  });

describe("what somebody else wrote", { timeout: 60_000 }, () => {
  it("is shown as far as it can be read, and named where it cannot", async () => {
    make("broken-config", { "config.json": "{" });
    make("list-config", { "config.json": "[]", "status.json": "null" });
    make("newer", {
      "config.json": JSON.stringify({
        version: 7,
        id: "newer",
        learner: "dream",
        algorithm: ["?"],
        settings: 3,
        model: null,
      }),
      "status.json": JSON.stringify({ state: "pondering", startedAt: 1, heartbeatAt: "?", steps: "many" }),
      "metrics.jsonl": '{"step":1,"reward":0.5,"spectrum":[1,2],"mood":"good"}\n',
      "evaluations.jsonl": '{"step":0,"set":"dreams","scenario":"a","mean":1}\n7\n',
      "events.jsonl": '{"seq":0,"step":0,"type":"dream","of":"sheep"}\nnull\n',
      "notes.json": '{"tags":7}',
    });
    mkdirSync(join(runs, "no-run"));
    mkdirSync(join(runs, "folders-for-files", "metrics.jsonl"), { recursive: true });
    mkdirSync(join(runs, "folders-for-files", "events.jsonl"));
    writeFileSync(join(runs, "folders-for-files", "config.json"), "{}");
    const { rows, total } = await reader.runs({});
    expect(rows.map(({ key }) => key).sort()).toEqual(["broken-config", "folders-for-files", "list-config", "newer"]);
    expect(total).toBe(4);
    for (const row of rows) {
      expect([row.key, row.problems.length]).not.toEqual([row.key, 0]);
      await expect(reader.run(row.key)).resolves.toBeDefined();
      await expect(reader.config(row.key)).resolves.toBeDefined();
      await expect(reader.trajectories(row.key, {})).resolves.toMatchObject({ rows: [] });
      await expect(reader.live(row.key)).resolves.toBeDefined();
    }
    const newer = rows.find(({ key }) => key === "newer")!;
    expect(newer).toMatchObject({ state: "lost", reward: 0.5, learner: "dream", step: 1, startedAt: 1 });
    expect(newer.problems.map(({ where }) => where)).toEqual(
      expect.arrayContaining(["config.json", "notes.json", "events.jsonl, line 2"]),
    );
    expect((await reader.events("newer")).events).toMatchObject([{ type: "dream", of: "sheep" }]);
    expect((await reader.evaluations("newer")).problems).toMatchObject([{ where: "evaluations.jsonl, line 2" }]);
    await expect(reader.compare({ runs: rows.map(({ key }) => key).join(",") })).resolves.toBeDefined();
    rmSync(runs, { recursive: true });
  });

  it("may have a metric that comes late and is no number for a while, and a clock that jumps", async () => {
    const lines = Array.from({ length: 50 }, (_, i) => {
      const late = i < 20 ? {} : { late: i < 30 ? null : i };
      return JSON.stringify({ step: i + 1, reward: i, ...late });
    });
    const timing = lines.map((_, i) =>
      JSON.stringify({ step: i + 1, rolloutMs: i === 10 ? -1e12 : 1000, updateMs: null, otherMs: 0 }),
    );
    make("late", { "metrics.jsonl": `${lines.join("\n")}\n`, "timing.jsonl": `${timing.join("\n")}\n` });
    const read = async (x: string) =>
      decodePacked<SeriesHead>((await reader.series("late", { metrics: "late,reward", x })).buffer).columns;
    const byStep = await read("step");
    expect(byStep["late.x"]!.length).toBe(30);
    expect([...byStep["late.mean"]!].map(Number.isNaN)).toEqual(Array.from({ length: 30 }, (_, i) => i < 10));
    const seconds = [...(await read("time"))["reward.x"]!];
    expect(seconds).toEqual([...seconds].sort((a, b) => a - b));
    expect(seconds.at(-1)).toBe(49);
    const row = await reader.run("late");
    expect([row.curve.points.length, row.reward]).toEqual([50, 49]);
  });

  it("may have had more conversations than were written, and says how many", async () => {
    const dir = make("many", {});
    const last = record("last", "x", { notWritten: { lost: 2, dropped: 0, refused: 5 } });
    writeFileSync(join(dir, "trajectories", "step-000001.jsonl"), last);
    const { problems } = await reader.trajectories("many", {});
    expect(problems).toEqual([
      {
        where: "trajectories/step-000001.jsonl",
        message: "has not all conversations, since they were too many: 2 lost, 5 refused are missing",
      },
    ]);
  });

  it("may be conversations that are damaged, huge, or full of odd letters", async () => {
    const odd = "\u0000\u001b[31m\u202e<script>alert(1)</script>\ud800 e\u0301\u{1F600}";
    const huge = "long ".repeat(250_000);
    const lines = [
      record("odd", odd),
      '{"id":"half","messages":[{"role":',
      "",
      record("huge", huge),
      '{"id":"none"}',
      record("\ud800 group", "x", { group: "\ud800:/%" }),
    ];
    const dir = make("odd", {});
    writeFileSync(join(dir, "trajectories", "step-000001.jsonl"), lines.join("\n"));
    const { rows, problems } = await reader.trajectories("odd", {});
    expect(rows.map(({ id }) => id)).toEqual(["odd", "huge", "\ud800 group"]);
    expect(problems.map(({ where }) => where)).toEqual([
      "trajectories/step-000001.jsonl, line 2",
      "trajectories/step-000001.jsonl, line 5",
    ]);
    expect(rows[1]!.snippet.length).toBeLessThan(200);
    const first = trajectorySchema.parse(await reader.trajectory("odd:1:0"));
    expect([first.record.messages[1]!.content, first.next]).toEqual([odd, "odd:1:3"]);
    expect((await reader.trajectory("odd:1:3")).record.messages[1]!.content.length).toBe(huge.length);
    await expect(reader.trajectory("odd:1:1")).rejects.toMatchObject({
      status: 404,
      message: expect.stringMatching(/no JSON/) as string,
    });
    await expect(reader.trajectory("odd:1:2")).rejects.toMatchObject({ status: 404 });
    const strange = await reader.group(rows[2]!.group!);
    expect(strange.members.map(({ id }) => id)).toEqual(["\ud800 group"]);
    const searched = await reader.trajectories("odd", { text: "SCRIPT" });
    expect(searched.rows.map(({ id }) => id)).toEqual(["odd"]);
  });

  it.each([
    "odd:1",
    "odd:1:0:0",
    "odd:x:0",
    "odd:1:-1",
    "odd:1:1e9",
    "odd:999:0",
    "%:1:0",
    "..%2Fodd:1:0",
    ":1:0",
    "odd:1:99999999999999999999",
  ])("has no conversation at %j", async (key) => {
    await expect(reader.trajectory(key)).rejects.toMatchObject({ status: 404 });
    await expect(reader.tokens(key)).rejects.toMatchObject({ status: 404 });
  });

  it("may be a conversation of 100,000 tokens", async () => {
    const length = 100_000;
    const dir = make("long");
    const chain = {
      tokens: Int32Array.from({ length }, (_, i) => i % 5000),
      learn: new Uint8Array(length).fill(1),
      logprobs: new Float32Array(length).fill(-1),
      turn: new Int32Array(length).fill(1),
    };
    const learnt = { advantage: new Float32Array(length - 1).fill(0.5), ratio: new Float32Array(length - 1).fill(1) };
    const messages = [
      { role: "user" as const, content: "?" },
      { role: "assistant" as const, content: "x ".repeat(length) },
    ];
    const own = {
      id: "long",
      group: "g",
      step: 1,
      messages,
      reward: { score: 1, breakdown: {} },
      chains: [{ length, learnLength: length - 1 }],
    };
    writeTrajectories(dir, 1, [{ record: own, chains: [chain], learnt }], { tokens: true });
    const { head, columns } = decodePacked<TokensHead>((await reader.tokens("long:1:0")).buffer);
    expect([head.chains[0]!.length, head.pieces.length, columns.advantage!.length]).toEqual([length, 5000, length]);
    const group = await reader.group("long:1:g");
    expect(group.members[0]!.advantage!.sum).toBeCloseTo((length - 1) / 2, 0);
    expect(group.tree![0]!.text.length).toBeLessThanOrEqual(2001);
  });

  it("may be gone while it is looked at", async () => {
    const dir = make("leaving", { "metrics.jsonl": '{"step":1,"reward":1}\n' });
    await reader.runs({});
    rmSync(dir, { recursive: true });
    for (const ask of [
      reader.run("leaving"),
      reader.series("leaving", { metrics: "reward" }),
      reader.trajectory("leaving:1:0"),
      reader.config("leaving"),
    ])
      await expect(ask).rejects.toMatchObject({ status: 404 });
    expect((await reader.runs({})).rows.map(({ key }) => key)).not.toContain("leaving");
  });
});
