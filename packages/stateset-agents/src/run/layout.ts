/**
 * The folder of a run, in one place. Plain files are the truth: whoever reads a run (command line, dashboard, server) reads these.
 * Everything but `status.json`, `timing.jsonl`, `live.jsonl`, `notes.json`, `lock`, `cli.json`, `worker.log` and `resumed.log` depends on configuration, data and seed
 * alone, so that a run that was killed and resumed ends in the same bytes as one that never stopped.
 */
import { join } from "node:path";

export const runFiles = {
  /** Everything that decides what the run does: settings, agent, reward, data, the model's identity. */
  config: "config.json",
  /** Who runs it and how it stands: state, process, heartbeat. */
  status: "status.json",
  /** Held by the process that writes here. */
  lock: "lock",
  /** What happened, one RunEvent a line. */
  events: "events.jsonl",
  /** The numbers of each step, with those of the evaluation that followed. */
  metrics: "metrics.jsonl",
  /** Every evaluation by scenario. */
  evaluations: "evaluations.jsonl",
  /** What depends on the clock. */
  timing: "timing.jsonl",
  /** The newest conversations as they end and are rewarded, for onlookers: see live.ts. */
  live: "live.jsonl",
  /** What people say of the run: tags, a note, whether it is put away. */
  notes: "notes.json",
  /** How the command line was called, for runs that it started. */
  cli: "cli.json",
  /** What was said of workers that were lost: their last lines, and what they were doing where they stalled. */
  worker: "worker.log",
  /** What it printed since the dashboard went on with it. */
  resumed: "resumed.log",
  /**
   * `step-000123.jsonl`, a ConversationRecord a line, and `step-000123.bin` with their tokens: see trajectories.ts and token-file.ts;
   * `evaluation-000120.jsonl`, those of the evaluation after a step: see evaluation-conversations.ts.
   */
  trajectories: "trajectories",
  /** `step-000123/` and the files `last` and `best` that name one. */
  checkpoints: "checkpoints",
  /** Of `best-of-n`: what it kept of what it sampled, a folder with `trajectories/` of its own. */
  harvest: "harvest",
  /** What was learnt, in Hugging Face layout. */
  final: "final",
} as const;

export type RunFile = keyof typeof runFiles;

/** Those that grow by the line, depend on no clock and are cut back to a checkpoint when a run is resumed. */
export const logFiles = ["events", "metrics", "evaluations"] as const satisfies readonly RunFile[];
export type LogFile = (typeof logFiles)[number];

export function pathIn(dir: string, file: RunFile): string {
  return join(dir, runFiles[file]);
}

/** `step-000123`, which sorts by number. */
export function stepName(step: number): string {
  return `step-${String(step).padStart(6, "0")}`;
}

/** The step that a file or folder is named after; undefined for other names. `ending` is what follows: ".jsonl". */
export function stepOf(name: string, ending = ""): number | undefined {
  if (!name.endsWith(ending)) return undefined;
  const [, digits] = /^step-(\d{6,})$/.exec(name.slice(0, name.length - ending.length)) ?? [];
  return digits === undefined ? undefined : Number(digits);
}
