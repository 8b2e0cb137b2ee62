import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Trajectory } from "../conversation/trajectory.ts";
import { fakeGroup } from "../test-support/fake-group.ts";
import { LiveLog } from "./live.ts";
import { LiveTail, readLive } from "./read-live.ts";

let dir: string;
let log: LiveLog;
const said: string[] = [];
const open = () => new LiveLog(join(dir, "live.jsonl"), (message) => void said.push(message));
const lines = () => readFileSync(join(dir, "live.jsonl"), "utf8").split("\n").slice(0, -1);

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "live-"));
  said.length = 0;
  log = open();
});
afterEach(() => {
  log.close();
  rmSync(dir, { recursive: true });
});

function conversation(id: string, score = 1): Trajectory {
  const [one] = fakeGroup("s", [{ reward: score }]).trajectories;
  return { ...one!, id };
}

/** Says that conversations ended, and that all of them were rewarded. */
function play(step: number, ids: readonly string[], { rewarded = true } = {}): void {
  const watch = log.of(step);
  for (const id of ids) watch.ended(`s${step}-g0`, conversation(id));
  if (rewarded) for (const [i, id] of ids.entries()) watch.rewarded(`s${step}-g0`, conversation(id, i));
}

describe("live.jsonl", () => {
  it("tells a conversation when it ends, and again when it is rewarded", () => {
    const tail = new LiveTail(dir);
    expect(tail.next()).toEqual([]);
    play(1, ["a", "b"], { rewarded: false });
    log.flush();
    const first = tail.next();
    expect(first).toMatchObject([
      { seq: 1, step: 1, id: "a", group: "s1-g0", scenario: "s", reward: null, breakdown: {}, ended: "done" },
      { seq: 2, step: 1, id: "b", reward: null },
    ]);
    expect(first[0]!.messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
    log.of(1).rewarded("s1-g0", conversation("b", 0.5));
    log.flush();
    expect(tail.next()).toMatchObject([{ seq: 3, id: "b", reward: 0.5 }]);
    expect(tail.next()).toEqual([]);
    expect(readLive(dir)).toEqual(tail.all());
  });

  it("says of a reward that failed how it did, without the code it came through", () => {
    play(1, ["a"], { rewarded: false });
    const { reward: _, ...unrewarded } = conversation("a");
    const of = { scenarioId: "s", trajectoryId: "a" } as const;
    const failure = { kind: "threw", during: "reward", ...of, message: "no verdict", mistake: "at mine.ts" } as const;
    log.of(1).rewarded("s1-g0", { ...unrewarded, failure });
    log.flush();
    expect(readLive(dir)).toMatchObject([{ id: "a", reward: null, failure: "no verdict" }]);
    expect(lines().join()).not.toContain("mine.ts");
  });

  it("writes by itself, a little later", async () => {
    play(1, ["a"]);
    expect(() => lines()).toThrow("ENOENT");
    await expect.poll(() => readLive(dir).length).toBe(1);
  });

  it("keeps the newest 200 conversations with their rewards, and a reader that follows misses none", () => {
    const tail = new LiveTail(dir);
    const told: string[] = [];
    for (let step = 1; step <= 90; step++) {
      const ids = Array.from({ length: 10 }, (_, i) => `s${step}-m${i}`);
      play(step, ids);
      log.flush();
      expect(lines().length).toBeLessThanOrEqual(2 * 2 * 200);
      told.push(...tail.next().map(({ id }) => id));
      expect(tail.all().at(-1)).toMatchObject({ id: `s${step}-m9`, reward: 9 });
    }
    expect(told.length).toBe(900);
    expect(new Set(told).size).toBe(900);
    const left = readLive(dir);
    expect(left.length).toBeGreaterThanOrEqual(200);
    expect(left.every(({ reward }) => reward !== null)).toBe(true);
    expect(left.at(-1)!.seq).toBe(1800);
  });

  it("is cut also where conversations of one step are more than it keeps", () => {
    play(
      1,
      Array.from({ length: 1000 }, (_, i) => `m${i}`),
    );
    log.flush();
    expect(readLive(dir).map(({ id, reward }) => [id, reward])).toEqual(
      Array.from({ length: 200 }, (_, i) => [`m${800 + i}`, 800 + i]),
    );
  });

  it("goes on counting when the run is taken up again, and voids what came after the checkpoint", () => {
    const tail = new LiveTail(dir);
    play(1, ["s1-m0"]);
    play(2, ["s2-m0"]);
    log.close();
    tail.next();
    // Killed in the middle of a line.
    appendFileSync(join(dir, "live.jsonl"), '{"seq":5,"type":"conver');
    expect(readLive(dir).length).toBe(2);
    log = open();
    log.back(1);
    expect(readLive(dir).map(({ id }) => id)).toEqual(["s1-m0"]);
    expect(tail.next()).toEqual([]);
    expect(tail.all().map(({ id }) => id)).toEqual(["s1-m0"]);
    play(2, ["s2-m0"]);
    log.flush();
    expect(tail.next()).toMatchObject([{ id: "s2-m0", seq: 7 }]);
    expect(readLive(dir).map(({ seq }) => seq)).toEqual([2, 7]);
    log.close();
    log = open();
    play(3, ["s3-m0"], { rewarded: false });
    log.flush();
    expect(readLive(dir).at(-1)!.seq).toBe(8);
  });

  it("cuts messages that nobody reads on the way, and says by how much", () => {
    const one = conversation("a");
    const turns = one.turns.map((turn) => ({ ...turn, content: "x".repeat(30_000) }));
    log.of(1).ended("g", { ...one, turns });
    log.flush();
    expect(readLive(dir)[0]!.messages[0]).toMatchObject({ content: "x".repeat(20_000), cut: 10_000 });
  });

  it("costs a run on a failing disk nothing but its lines, said once", () => {
    const path = join(dir, "live.jsonl");
    mkdirSync(path);
    for (const id of ["a", "b"]) {
      play(1, [id]);
      log.flush();
    }
    expect(said.length).toBe(1);
    expect(said[0]).toContain("live.jsonl could not be written");
    rmSync(path, { recursive: true });
    play(1, ["c"]);
    log.flush();
    expect(readLive(dir).map(({ id }) => id)).toEqual(["c"]);
  });

  it("passes over lines that make no sense", () => {
    appendFileSync(join(dir, "live.jsonl"), '7\nnull\n{"seq":1}\n{"seq":2,"step":1,"type":"reward","id":1}\n[]\nx\n');
    appendFileSync(join(dir, "live.jsonl"), '{"seq":3,"step":1,"type":"later-kind","id":"a","group":"g"}\n');
    expect(readLive(dir)).toEqual([]);
    expect(readLive(join(dir, "nowhere"))).toEqual([]);
  });
});
