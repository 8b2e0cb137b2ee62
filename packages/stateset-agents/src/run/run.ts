/**
 * A run that is under way: its folder, its lock, its records, its onlookers. What learns is the caller's; whatever it is, it tells a Run
 * what happens, and keeps its state in the Run's checkpoints.
 */

import { isAbort } from "../abort.ts";
import { counted } from "../counted.ts";
import { writeJsonAtomic } from "../durable.ts";
import { messageOf } from "../error.ts";
import type { FileLock } from "../file-lock.ts";
import type { ModelInfo } from "../policy/policy.ts";
import {
  type AnyCallbacks,
  callbackOf,
  createEmitter,
  type Emitter,
  type RunCallbacks,
  type RunProgress,
  type RunStart,
  type StepEnd,
  type StopRun,
} from "./callbacks.ts";
import { CheckpointStore, type RunPart } from "./checkpoint/store.ts";
import type { RunConfig } from "./config.ts";
import { keepEvaluations } from "./evaluation-conversations.ts";
import type {
  EvaluationRecord,
  EventType,
  FactOf,
  RunEnd,
  RunEvent,
  RunWarning,
  StepMetrics,
  TimingRecord,
} from "./event.ts";
import { type LogFile, logFiles, pathIn, runFiles } from "./layout.ts";
import { LiveLog } from "./live.ts";
import { lockRun } from "./lock.ts";
import { JsonLog } from "./log.ts";
import { heartbeatMs, type RunStatus, readStatus, statusNow, writeStatus } from "./status.ts";
import { removeLater } from "./trajectories.ts";

/** What a checkpoint holds beside its parts. */
export interface SavedRun<State> {
  learner: State;
  /** The lines of events.jsonl, and the bytes of each log. */
  events: number;
  logs: Record<LogFile, number>;
  callbacks: Record<string, unknown>;
  /** The step that has done best so far. */
  best: number | null;
  /** Why the run was asked to stop, once it was: a run that is killed right after does not go on when it is resumed. */
  stopped: string | null;
}

export interface RunOptions {
  id: string;
  dir: string | undefined;
  config: RunConfig;
  steps: number;
  /** Checkpoints to keep. */
  keep: number;
  callbacks: readonly AnyCallbacks[];
  signal: AbortSignal | undefined;
  resumed: boolean;
}

export class Run<State = unknown> {
  readonly id: string;
  readonly dir: string | undefined;
  readonly config: RunConfig;
  readonly steps: number;
  readonly signal: AbortSignal | undefined;
  readonly warnings: RunWarning[] = [];
  /** One record a step, also of those before a resume. */
  readonly records: StepMetrics[] = [];
  /** Every evaluation, also of those before a resume. */
  readonly evaluations: EvaluationRecord[] = [];
  readonly store: CheckpointStore<SavedRun<State>> | undefined;
  /** Where conversations are told of as they end. */
  readonly live: LiveLog | undefined;
  /** How it stood when this process took it up. */
  readonly before: RunStatus | undefined;
  /** Steps done. */
  step = 0;
  /** Why it was asked to stop before its last step. */
  stopped: string | null = null;
  best: number | null = null;
  /** The step of the newest checkpoint. */
  savedStep: number | undefined;
  /** The step under way. */
  #current = 0;
  #events = 0;
  readonly #logs: Record<LogFile, JsonLog<object>> | undefined;
  readonly #timing: JsonLog<TimingRecord> | undefined;
  readonly #emitter: Emitter;
  readonly #lock: FileLock | undefined;
  #status: RunStatus;
  #heartbeat: NodeJS.Timeout | undefined;

  constructor({ id, dir, config, steps, keep, callbacks, signal, resumed }: RunOptions) {
    this.id = id;
    this.dir = dir;
    this.config = config;
    this.steps = steps;
    this.signal = signal;
    this.#emitter = createEmitter(callbacks, signal, (message) => this.say({ kind: "callback-failed", message }));
    this.#status = statusNow(steps);
    if (dir === undefined) return;
    this.#lock = lockRun(dir, resumed ? "resumed" : "started");
    this.before = readStatus(dir);
    this.#status.startedAt = this.before?.startedAt ?? this.#status.startedAt;
    this.store = new CheckpointStore(dir, keep);
    const logs = logFiles.map((file) => [file, new JsonLog<object>(pathIn(dir, file))]);
    this.#logs = Object.fromEntries(logs) as Record<LogFile, JsonLog<object>>;
    this.#timing = new JsonLog(pathIn(dir, "timing"));
    this.live = new LiveLog(pathIn(dir, "live"), (message) => void this.say({ kind: "live-failed", message }));
    this.#beat();
    this.#heartbeat = setInterval(this.#beat, heartbeatMs).unref();
    signal?.addEventListener("abort", this.#beat);
  }

  /** For messages: "after 1 step". */
  get afterSteps(): string {
    return `after ${counted(this.step, "step")}`;
  }

  add(callback: AnyCallbacks): void {
    this.#emitter.add(callback);
  }

  /** States of the callbacks by name, as a checkpoint keeps them. */
  async callbackStates(): Promise<Record<string, unknown>> {
    return JSON.parse(JSON.stringify(await this.#emitter.states())) as Record<string, unknown>;
  }

  /** Goes back to what a checkpoint holds, or to the beginning, where `callbacks` are the states of the onlookers. */
  async restore(saved: SavedRun<State> | undefined, step: number, callbacks = saved?.callbacks): Promise<void> {
    this.step = step;
    this.#current = step;
    this.best = saved?.best ?? null;
    this.stopped = saved?.stopped ?? null;
    this.#events = saved?.events ?? 0;
    const short = logFiles.filter((file) => this.#logs && !this.#logs[file].cut(saved?.logs[file] ?? 0));
    cutTiming(this.#timing, step);
    if (this.dir !== undefined) removeLater(this.dir, step);
    this.live?.back(step);
    this.store?.repair(step, this.best ?? undefined);
    if (callbacks) await this.#emitter.restore(callbacks);
    this.savedStep = saved && step;
    // Of steps that are done again.
    for (const list of [this.records, this.evaluations]) list.length = 0;
    this.warnings.splice(0, Number.POSITIVE_INFINITY, ...this.warnings.filter((warning) => warning.step <= step));
    this.records.push(...((this.#logs?.metrics.read() ?? []) as StepMetrics[]));
    this.evaluations.push(...evaluationsIn((this.#logs?.events.read() ?? []) as RunEvent[]));
    if (this.dir !== undefined) keepEvaluations(this.dir, this.evaluations);
    for (const file of short) {
      const message = `${runFiles[file]} holds less than it did at step ${step}: what is missing of the steps before stays missing.`;
      await this.say({ kind: "checkpoint-damaged", message });
    }
  }

  writeConfig(): void {
    if (this.dir !== undefined) writeJsonAtomic(pathIn(this.dir, "config"), this.config);
  }

  /** Tells that it begins or goes on; the first time, that is written down. */
  async begin(learner: string, view: Omit<RunStart, "id" | "dir" | "learner" | "steps" | "saved">): Promise<void> {
    const { id, dir, steps, config: saved } = this;
    const event = this.#events === 0 ? this.#write("start", 0, { learner, steps }) : undefined;
    if (event) await this.#emitter.emit("onEvent", event);
    await this.#emitter.emit("onStart", { id, dir, learner, steps, saved, ...view });
  }

  /** Writes down what happened and tells the callbacks, `view` beside it. */
  async tell<T extends EventType>(type: T, step: number, fact: FactOf<T>, view: object = {}): Promise<void> {
    await this.#emit(this.#write(type, step, fact), view);
    // What was sampled is told of before it is learnt from.
    if (type === "rollouts") this.progress({ phase: "learning" });
  }

  /** Where it is inside a step. Not an event of the run either. */
  progress(progress: Omit<RunProgress, "step" | "totalSteps">): void {
    this.#emitter.progress({ step: this.#current, totalSteps: this.steps, ...progress });
  }

  /** A warning that belongs to the run. */
  async warn(warning: Omit<RunWarning, "step">, step = this.step): Promise<void> {
    this.warnings.push({ step, ...warning });
    await this.#emit(this.#write("warning", step, warning), {});
  }

  /** A warning that belongs to this process, and is not written: it would not be there had the run gone on. */
  async say(warning: Omit<RunWarning, "step">): Promise<void> {
    this.warnings.push({ step: this.step, ...warning });
    await this.#emit({ seq: null, step: this.step, type: "warning", ...warning }, {});
  }

  /** A warning that is found whenever the run is taken up: it belongs to the run the first time only. */
  warnAtStart(warning: Omit<RunWarning, "step">): Promise<void> {
    return this.savedStep === undefined ? this.warn(warning) : this.say(warning);
  }

  /** Not an event of the run, which knows of a step when it is done. */
  stepStart(event: Parameters<NonNullable<RunCallbacks["onStepStart"]>>[0]): Promise<void> {
    this.#current = event.step;
    return this.#emitter.emit("onStepStart", event);
  }

  /** For callbacks. */
  readonly tellFinding: StepEnd["tell"] = async (said) => {
    const { type, step, ...fact } = said;
    await this.#emit(this.#write(type, step, fact as FactOf<typeof type>), {});
  };

  /** For callbacks: the first reason counts. */
  readonly stop: StopRun = (reason) => {
    this.stopped ??= reason;
  };

  /** A line of metrics.jsonl. */
  record(metrics: StepMetrics): void {
    this.records.push(metrics);
    this.live?.flush();
    this.#logs?.metrics.append(metrics);
  }

  recordEvaluation(lines: readonly object[]): void {
    this.#logs?.evaluations.append(...lines);
  }

  time(timing: TimingRecord): void {
    this.#timing?.append(timing);
  }

  /**
   * Writes a checkpoint of the run as it is; does nothing when it keeps no files. `planned`: it would also have been written had nobody
   * stopped the run, so it is one of the run's events.
   */
  async save(
    model: ModelInfo,
    parts: Readonly<Record<string, RunPart>>,
    learner: State,
    { best, planned }: { best: boolean; planned: boolean },
  ): Promise<void> {
    const { step, store } = this;
    if (!store || !this.#logs) return;
    this.progress({ phase: "saving" });
    if (best) this.best = step;
    // Before the checkpoint, which keeps how long the log is.
    const event = planned ? this.#write("checkpoint", step, { best }) : undefined;
    const logs = Object.fromEntries(logFiles.map((file) => [file, this.#logs![file].sync()]));
    const state: SavedRun<State> = {
      learner,
      events: this.#events,
      logs: logs as Record<LogFile, number>,
      callbacks: await this.#emitter.states(),
      best: this.best,
      stopped: this.stopped,
    };
    const dir = await store.save(model, parts, { step, state, best });
    this.savedStep = step;
    const view = { dir };
    if (event) await this.#emit(event, view);
    else await this.#emitter.emit("onCheckpoint", { step, best, dir });
  }

  /**
   * Does the work of a learner and says how it ended. An abort ends it as "interrupted": what was done is saved, and nothing is thrown.
   */
  async conclude(work: () => Promise<RunEnd>, save: () => Promise<void>): Promise<RunEnd> {
    let end: RunEnd;
    try {
      end = await work().catch(async (error: unknown) => {
        if (!this.signal?.aborted || !isAbort(error)) throw error;
        if (this.savedStep !== this.step) await save();
        return { status: "interrupted", steps: this.step, reason: "Stopped on request." } satisfies RunEnd;
      });
    } catch (error) {
      await this.fail(error);
      throw error;
    }
    await this.end(end);
    return end;
  }

  /** Says how it ended and lets go of the folder. */
  async end(end: RunEnd): Promise<void> {
    const { steps, ...fact } = end;
    const { status, reason } = end;
    this.step = steps;
    try {
      await this.tell("end", steps, fact, { steps });
    } finally {
      this.close(status, reason);
    }
  }

  /** The same for a run that broke: whatever broke it is what matters, not that the end could not be written either. */
  async fail(error: unknown): Promise<void> {
    await this.end({ status: "failed", steps: this.step, reason: messageOf(error) }).catch(() => {});
  }

  /** Lets go of the folder. */
  close(state: RunStatus["state"], reason: string | undefined): void {
    this.#quiet();
    this.#status = { ...this.#status, state, ...(reason !== undefined && { reason }) };
    this.#beat();
    this.#lock?.release();
  }

  /** Lets go of a run that it could not go on with: as that stood, it stands. */
  leave(): void {
    this.#quiet();
    const { state, ...rest } = this.before!;
    // One is not written to be lost, but found so: its process is gone.
    writeStatus(this.dir!, { ...rest, state: state === "lost" ? "running" : state });
    this.#lock?.release();
  }

  #write<T extends EventType>(type: T, step: number, fact: FactOf<T>): RunEvent {
    const event = { seq: this.#events++, step, type, ...fact } as RunEvent;
    this.evaluations.push(...evaluationsIn([event]));
    this.#logs?.events.append(event);
    return event;
  }

  async #emit(event: RunEvent, view: object): Promise<void> {
    await this.#emitter.emit("onEvent", event);
    const { seq: _, type, ...fact } = event;
    await this.#emitter.emit(callbackOf[type], { ...fact, ...view });
  }

  #quiet(): void {
    clearInterval(this.#heartbeat);
    this.#heartbeat = undefined;
    this.signal?.removeEventListener("abort", this.#beat);
    this.live?.close();
  }

  readonly #beat = (): void => {
    if (this.dir === undefined) return;
    this.#status = { ...this.#status, heartbeatAt: Date.now(), step: this.step };
    this.#lock?.touch();
    const stopping = this.#status.state === "running" && this.signal?.aborted === true;
    try {
      writeStatus(this.dir, { ...this.#status, ...(stopping && { stopping }) });
    } catch {
      // A full disk is the run's own to find out; how it stands is not worth failing for.
    }
  };
}

function evaluationsIn(events: readonly RunEvent[]): EvaluationRecord[] {
  return events.flatMap((event): EvaluationRecord[] => {
    if (event.type !== "evaluation") return [];
    const { seq: _, type: __, ...record } = event;
    if (record.set !== "held-out") return [record];
    // JSON has no NaN and no infinity: what was not finite was written as null.
    const numbers = Object.entries(record.numbers).map(([name, value]) => [name, value ?? Number.NaN]);
    return [{ ...record, numbers: Object.fromEntries(numbers) as Record<string, number> }];
  });
}

function cutTiming(log: JsonLog<TimingRecord> | undefined, step: number): void {
  if (!log) return;
  const kept = log.read().filter((record) => record.step <= step);
  log.cut(kept.reduce((sum, record) => sum + Buffer.byteLength(JSON.stringify(record)) + 1, 0));
}
