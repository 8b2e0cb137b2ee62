import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import type { RunStatus } from "../../run/status.ts";
import { createControl, type ResumeCommand } from "./control.ts";

/** A process that ends well when it is asked to. */
async function worker(
  program = "process.on('SIGTERM', () => process.exit(0)); setInterval(() => {}, 1000); console.log('on');",
): Promise<ChildProcess & { pid: number }> {
  const child = spawn(process.execPath, ["-e", program]);
  onTestFinished(() => void child.kill("SIGKILL"));
  await new Promise((settle) => child.stdout.once("data", settle));
  return child as ChildProcess & { pid: number };
}

interface Left {
  /** Who has its lock; by default the process of the status. */
  holder?: number | null;
  cli?: boolean;
}

function runIn(status: Partial<RunStatus>, { holder = status.pid ?? null, cli = true }: Left = {}): string {
  const dir = temporaryFolder();
  const now = Date.now();
  const all = { state: "running", host: hostname(), startedAt: now, heartbeatAt: now, step: 1, steps: 9, ...status };
  writeFileSync(join(dir, "status.json"), JSON.stringify(all));
  if (holder !== null) writeFileSync(join(dir, "lock"), JSON.stringify({ pid: holder, host: all.host }));
  if (cli) writeFileSync(join(dir, "cli.json"), JSON.stringify({ command: "train" }));
  return dir;
}

const none = createControl(() => undefined);

describe("stopping", () => {
  it("asks the process that writes the run to end well", async () => {
    const child = await worker();
    const dir = runIn({ pid: child.pid });
    expect(none.of(dir).stop).toEqual({ possible: true, why: null, command: `kill ${child.pid}`, asked: false });
    const ended = new Promise((settle) => child.once("exit", settle));
    expect(none.stop(dir)).toEqual({ pid: child.pid });
    expect(await ended).toBe(0);
  });

  it("asks once: a run that was asked twice would end unsaved", async () => {
    const program =
      "process.on('SIGTERM', () => console.log('asked')); setInterval(() => {}, 1000); console.log('on');";
    const child = await worker(program);
    let said = "";
    child.stdout!.on("data", (text) => {
      said += text;
    });
    const dir = runIn({ pid: child.pid });
    none.stop(dir);
    await expect.poll(() => said).toBe("asked\n");
    const why = "It is stopping: it saves the steps done and ends.";
    expect(() => none.stop(dir)).toThrow(expect.objectContaining({ status: 409, message: why }));
    expect(none.of(dir).stop).toEqual({ possible: false, why, command: null, asked: true });
    // Another dashboard, or one that was started since, knows it of the run itself.
    const other = createControl(() => undefined);
    expect(other.of(dir).stop.possible).toBe(true);
    const noted = runIn({ pid: child.pid, stopping: true });
    expect(other.of(noted).stop).toEqual({ possible: false, why, command: null, asked: true });
    expect(() => other.stop(noted)).toThrow(expect.objectContaining({ status: 409, message: why }));
    await new Promise((settle) => setTimeout(settle, 100));
    expect(said).toBe("asked\n");
  });

  it("touches no other process", async () => {
    const { pid } = await worker();
    const other = await worker();
    const cases: [string, string][] = [
      [runIn({ pid, state: "finished" }), "It is not running."],
      [runIn({ pid, host: "elsewhere" }), "It runs on elsewhere."],
      [runIn({ pid }, { holder: other.pid }), "Its process does not hold the run any more."],
      [runIn({ pid, state: "running", heartbeatAt: 0 }), "It is not running."],
      [runIn({ pid }, { cli: false }), "It was started by a program of its own, which a signal would end unsaved."],
      [runIn({ pid }, { holder: null }), "Its process does not hold the run any more."],
      [temporaryFolder(), "It is not running."],
      // These mean every process of the user, and the group of this one.
      [runIn({ pid: -1 }), "Its process does not hold the run any more."],
      [runIn({ pid: 0 }), "Its process does not hold the run any more."],
    ];
    for (const [dir, why] of cases) {
      expect(none.of(dir).stop).toEqual({ possible: false, why, command: null, asked: false });
      expect(() => none.stop(dir)).toThrow(expect.objectContaining({ status: 409, message: why }));
    }
    expect(other.exitCode).toBeNull();
  });
});

describe("resuming", () => {
  /** A program that does so much of a run as the test says. */
  const command = (program: string): ((dir: string) => ResumeCommand) => {
    return (dir) => ({
      file: process.execPath,
      args: ["-e", program, dir],
      cwd: dir,
      shown: "npx stateset-agents train",
    });
  };
  const holding = `
    require("fs").writeFileSync(process.argv[1] + "/lock", JSON.stringify({ pid: process.pid, host: require("os").hostname() }));
    console.log("goes on"); setInterval(() => {}, 1000);`;

  it("starts the run's own command, which outlives whoever asked, and says once it goes on", async () => {
    const dir = runIn({ pid: 1, state: "interrupted" }, { holder: null });
    const control = createControl(command(holding));
    expect(control.of(dir).resume).toEqual({ possible: true, why: null, command: "npx stateset-agents train" });
    const first = control.resume(dir);
    await expect(control.resume(dir)).rejects.toMatchObject({ status: 409, message: "It is being started." });
    const { pid, log } = await first;
    onTestFinished(() => void process.kill(pid, "SIGKILL"));
    await expect.poll(() => readFileSync(join(dir, log), "utf8")).toBe("goes on\n");
    expect(control.of(dir).resume).toMatchObject({ possible: false, why: "It is running." });
  });

  it("says why it does not", async () => {
    const dir = runIn({ pid: 1, state: "interrupted" }, { holder: null });
    const failing = createControl(
      command("console.error('✗ The model is gone. (MODEL_NOT_FOUND)\\n→ Look.'); process.exit(4)"),
    );
    const why = "`npx stateset-agents train` failed: The model is gone. (MODEL_NOT_FOUND)";
    await expect(failing.resume(dir)).rejects.toMatchObject({ status: 409, message: why });
    const nowhere = createControl(() => ({ file: "/nowhere/at/all", args: [], cwd: dir, shown: "x" }));
    await expect(nowhere.resume(dir)).rejects.toMatchObject({
      status: 409,
      message: expect.stringContaining("ENOENT"),
    });
    await createControl(command("")).resume(dir);
    expect(none.of(dir).resume).toMatchObject({ possible: false, why: expect.stringContaining("resumeFrom") });
    const done = runIn({ pid: 1, state: "finished" }, { holder: null });
    expect(createControl(command(holding)).of(done).resume).toMatchObject({ possible: false, why: "It is finished." });
  });
});
