/**
 * live.jsonl: the conversations of a run as they end and are rewarded, so that a step can be watched while it goes on. It depends on the
 * clock, keeps the newest conversations only, and is nobody's truth: a disk that fails costs its lines, never the run.
 */
import { appendFileSync, existsSync, renameSync, writeFileSync } from "node:fs";
import { type ConversationRecord, chatMessage } from "../conversation/record.ts";
import type { RewardResult, Trajectory } from "../conversation/trajectory.ts";
import { temporaryFor } from "../durable.ts";
import { messageOf } from "../error.ts";
import type { Unrewarded } from "../rollout/episode.ts";
import type { RolloutWatch } from "../rollout/rollout.ts";
import { readJsonLines } from "./log.ts";

/** `seq` grows over the file's life, also when the run is taken up again; `at` is in milliseconds since 1970. */
export type LiveLine = { seq: number; at: number; step: number } & (
  | ({ type: "conversation"; group: string } & Pick<
      ConversationRecord,
      "id" | "scenarioId" | "messages" | "ended" | "failure"
    >)
  /** Of a conversation that ended before. Without a score: its reward failed. */
  | ({ type: "reward"; group: string; id: string } & Partial<Pick<RewardResult, "score" | "breakdown">> &
      Pick<ConversationRecord, "failure">)
  /** The run went back to `step`: conversations of later ones are void. */
  | { type: "back" }
);

/** Conversations that stay when the file is cut; it is once there are twice as many. */
const kept = 200;
/** Between two writes at least. */
const everyMs = 100;
/** Characters of one message at most: `cut` says how many are missing. */
const longest = 20_000;

type Fact = LiveLine extends infer L ? (L extends LiveLine ? Omit<L, "seq" | "at"> : never) : never;

export class LiveLog {
  readonly #path: string;
  readonly #onFailed: (message: string) => void;
  /** Made into lines when they are written, not while somebody waits for the next conversation. */
  #pending: { seq: number; at: number; fact: () => Fact }[] = [];
  #timer: NodeJS.Timeout | undefined;
  #seq: number;
  /** On the disk. */
  #conversations: number;
  #lastStep: number;
  /** What was written last, here or by an earlier process, may end in the middle of a line. */
  #torn: boolean;
  #failed = false;
  readonly #flushAtExit = () => this.flush();

  constructor(path: string, onFailed: (message: string) => void) {
    this.#path = path;
    this.#onFailed = onFailed;
    const lines = before(path);
    const most = (of: (line: LiveLine) => number) => lines.reduce((max, line) => Math.max(max, of(line) || 0), 0);
    this.#seq = most(({ seq }) => seq);
    this.#lastStep = most(({ step }) => step);
    this.#conversations = lines.filter(({ type }) => type === "conversation").length;
    this.#torn = existsSync(path);
    process.on("exit", this.#flushAtExit);
  }

  /** For the rollouts of a step. */
  of(step: number): RolloutWatch {
    return {
      ended: (group, one) => this.#add(step, () => ({ type: "conversation", step, group, ...conversationFacts(one) })),
      rewarded: (group, one) => this.#add(step, () => ({ type: "reward", step, group, ...rewardFacts(one) })),
    };
  }

  /** The run goes on after `step`. */
  back(step: number): void {
    if (this.#lastStep <= step) return;
    this.#add(step, () => ({ type: "back", step }));
    this.#lastStep = step;
    this.flush();
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#pending.length === 0) return;
    const pending = this.#pending;
    this.#pending = [];
    try {
      const lines = pending.map(({ seq, at, fact }) => ({ seq, at, ...fact() }) as LiveLine);
      appendFileSync(this.#path, (this.#torn ? "\n" : "") + textOf(lines));
      this.#torn = false;
      this.#conversations += lines.filter(({ type }) => type === "conversation").length;
      if (this.#conversations > 2 * kept) this.#shorten();
    } catch (error) {
      this.#torn = true;
      if (!this.#failed) this.#onFailed(`live.jsonl could not be written: ${messageOf(error)}. The run goes on.`);
      this.#failed = true;
    }
  }

  close(): void {
    this.flush();
    process.off("exit", this.#flushAtExit);
  }

  #add(step: number, fact: () => Fact): void {
    this.#lastStep = Math.max(this.#lastStep, step);
    this.#pending.push({ seq: ++this.#seq, at: Date.now(), fact });
    this.#timer ??= setTimeout(() => this.flush(), everyMs).unref();
  }

  /** Not synced: after a crash of the machine nobody watches the step that was under way. */
  #shorten(): void {
    const lines = readJsonLines<LiveLine>(this.#path);
    const newest = new Set<LiveLine>();
    const ids = new Set<string>();
    for (const line of lines.toReversed()) {
      if (line.type !== "conversation" || newest.size === kept) continue;
      newest.add(line);
      ids.add(line.id);
    }
    const first = lines.findIndex((line) => newest.has(line));
    // The last line stays whatever it is: it has the highest number.
    const stay = (line: LiveLine, i: number) =>
      newest.has(line) ||
      i === lines.length - 1 ||
      (i > first && (line.type === "back" || (line.type === "reward" && ids.has(line.id))));
    const temporary = temporaryFor(this.#path);
    writeFileSync(temporary, textOf(lines.filter(stay)));
    renameSync(temporary, this.#path);
    this.#conversations = newest.size;
  }
}

/** What an earlier process wrote. */
function before(path: string): LiveLine[] {
  try {
    return readJsonLines<LiveLine>(path);
  } catch {
    // Whatever lies there: writing to it will say so.
    return [];
  }
}

function textOf(lines: readonly LiveLine[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

function conversationFacts({ id, scenarioId, turns, ended, failure }: Unrewarded) {
  const messages = turns.map((turn) => {
    const message = chatMessage(turn);
    const cut = message.content.length - longest;
    return cut <= 0 ? message : { ...message, content: message.content.slice(0, longest), cut };
  });
  return { id, scenarioId, messages, ended, ...failureFact(failure) };
}

function rewardFacts(one: Trajectory | Unrewarded) {
  const { id, failure } = one;
  if (!("reward" in one)) return { id, ...failureFact(failure) };
  return { id, score: one.reward.score, breakdown: one.reward.breakdown };
}

/** Without the lines of code a mistake came through: paths are nobody else's business. */
function failureFact(failure: Unrewarded["failure"]): Pick<ConversationRecord, "failure"> {
  if (!failure) return {};
  const { mistake: _, ...rest } = failure;
  return { failure: rest };
}
