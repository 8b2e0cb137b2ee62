/** A short real training on the starter model, as a process of its own: watched, and with and without listeners. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { command } from "./processes.ts";

export interface Training {
  child: ChildProcess;
  dir: string;
  end: Promise<void>;
}

const asked = ["My parcel is late.", "I want a refund.", "The zip is broken.", "You charged me twice."];

function writeProject(folder: string): void {
  mkdirSync(join(folder, "runs"), { recursive: true });
  const scenarios = asked.map((text, i) => `${JSON.stringify({ id: `ask-${i}`, userResponses: [text] })}\n`);
  writeFileSync(join(folder, "train.jsonl"), scenarios.join(""));
  writeFileSync(
    join(folder, "stateset.config.yaml"),
    `agent: { systemPrompt: You are a polite support agent., sampling: { maxTokens: 24 } }
environment: { scenarios: train.jsonl, maxTurns: 1 }
reward: { politeness: 0.5, conciseness: 0.5 }
`,
  );
}

/** Every step learns from all it sampled, and none writes a checkpoint: steps that do the same can be held against each other. */
export const evenSteps = ["--kl", "0.05", "--set", "checkpoint.every=0"];

/** In `<folder>/runs/<name>`. */
export function startTraining(folder: string, name: string, steps: number, flags: readonly string[] = []): Training {
  writeProject(folder);
  const shape = ["--groups-per-step", "2", "--group-size", "4", "--max-tokens", "24", "--set", "evaluation.every=0"];
  const args = [command, "train", "--name", name, "--steps", String(steps), ...shape, ...flags, "--json"];
  const child = spawn(process.execPath, args, { cwd: folder, stdio: "ignore" });
  const end = new Promise<void>((settle, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) =>
      code === 0 || signal === "SIGKILL" ? settle() : reject(new Error(`train ended with ${code}.`)),
    );
  });
  end.catch(() => {});
  return { child, dir: join(folder, "runs", name), end };
}

/** Whole lines of a file of a run; none where it is not there yet. */
export function linesOf<T>(dir: string, file: string): T[] {
  try {
    const lines = readFileSync(join(dir, file), "utf8").split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line) as T);
  } catch {
    return [];
  }
}
