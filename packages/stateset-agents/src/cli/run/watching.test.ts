import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { RolloutProgress } from "../../rollout/rollout.ts";
import { FakeTerminal } from "../../test-support/fake-terminal.ts";
import type { CliIo } from "../io.ts";
import { watching } from "./watching.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));
const sampling = { phase: "sampling", of: 8 } as const;

/** Half a minute of sampling, then ten seconds of rewarding. */
async function work(tell: (progress: RolloutProgress) => void): Promise<string> {
  tell({ ...sampling, done: 0, tokens: 0 });
  await sleep(15_000);
  tell({ ...sampling, done: 2, tokens: 1200 });
  await sleep(15_000);
  tell({ phase: "rewarding", done: 4, of: 8, tokens: 4000 });
  await sleep(10_000);
  return "done";
}

async function watched(stderr: CliIo["stderr"], quiet = false): Promise<string> {
  const result = watching(quiet, { stderr, env: {} } as CliIo, work);
  await vi.advanceTimersByTimeAsync(40_000);
  return result;
}

it("says in lines how far conversations are, where there is no terminal", async () => {
  const lines: string[] = [];
  expect(await watched({ write: (text: string) => lines.push(text) })).toBe("done");
  expect(lines).toEqual([
    "sampling  0 of 8 conversations  10s\n",
    "sampling  2 of 8 conversations  1.2k tokens  20s\n",
    "sampling  2 of 8 conversations  1.2k tokens  30s\n",
    "rewarding  4 of 8 conversations  4.0k tokens  40s  about 10s left\n",
  ]);
});

it("writes one line anew on a terminal, and leaves nothing", async () => {
  const terminal = new FakeTerminal(45);
  const done = watching(false, { stderr: terminal as CliIo["stderr"], env: {} } as CliIo, work);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(terminal.lines()).toEqual(["sampling  2 of 8 conversations  1.2k tokens"]);
  expect(terminal.writes).toBeGreaterThan(90);
  await vi.advanceTimersByTimeAsync(20_000);
  await done;
  expect([terminal.text(), terminal.overflows]).toEqual(["", 0]);
});

it("says nothing where JSON was asked for", async () => {
  const write = vi.fn();
  await watched({ write }, true);
  expect(write).not.toHaveBeenCalled();
});
