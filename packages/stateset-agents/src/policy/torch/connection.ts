/** Calls over one socket: many at once, each answered, refused, or lost with the worker. Nothing waits for ever. */
import type { Socket } from "node:net";
import { messageOf, StatesetError } from "../../error.ts";
import { isObject } from "../tokenizer/model-json.ts";
import { encodeFrame, type Frame, type FrameArray, FrameReader, maxFrameBytes } from "./frame.ts";
import { Reply, refusal } from "./reply.ts";

/** Why nobody answers any more. */
export interface Loss {
  /** Completes "The PyTorch worker …". */
  what: string;
  /** It is there, but does nothing: where it stands is worth knowing. */
  stalled: boolean;
  /** What its threads were doing, where it could still say so. */
  stacks?: string;
  /** Ranks that did not even answer that. */
  silent?: readonly number[];
}

export interface ConnectionOptions {
  /** How long nothing at all may come of a call before the worker counts as stalled. */
  deadlineMs: number;
  /** Between two heartbeats. Default 5,000. */
  pingMs?: number | undefined;
  /** Turns a loss into what every waiting call gets. Called once. */
  explain(loss: Loss): StatesetError | Promise<StatesetError>;
  /** Called with each heartbeat. */
  onBeat?: (() => void) | undefined;
}

interface Waiting {
  op: string;
  since: number;
  resolve(reply: Reply): void;
  reject(error: unknown): void;
  onEvent: ((event: Reply) => void) | undefined;
}

/** Arrays that go with a call; to be left unchanged until it is answered. */
export type CallArrays = Readonly<Record<string, FrameArray>>;

/** What a greeting needs: before it nobody is trusted with more. */
const firstFrameBytes = 64 * 2 ** 10;
/** Heartbeats that may stay without an answer. */
const mostMissed = 3;
/** For a worker that no longer computes to say where it stands. */
const stacksMs = 3_000;
/** Answered whatever else the worker does, and so no sign that it gets on with it. */
const immediate = new Set(["ping", "stats", "stacks"]);

export class Connection {
  readonly #socket: Socket;
  readonly #options: ConnectionOptions;
  readonly #reader = new FrameReader(firstFrameBytes);
  readonly #waiting = new Map<number, Waiting>();
  readonly #timer: NodeJS.Timeout;
  #sendLimit = firstFrameBytes;
  #lastId = 0;
  #progress = performance.now();
  #missed = 0;
  /** Calls that the worker has to work for. */
  #pending = 0;
  #held = true;
  #loss: Promise<StatesetError> | undefined;
  #lost = false;
  #closed = false;

  constructor(socket: Socket, options: ConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.on("error", (error) => void this.#lose({ what: `was cut off: ${messageOf(error)}`, stalled: false }));
    socket.on("close", () => void this.#lose({ what: "closed the connection", stalled: false }));
    this.#timer = setInterval(() => this.#beat(), options.pingMs ?? 5_000);
    this.#hold(0);
  }

  /** Sent at once: the worker takes calls in the order in which they were made. */
  call(
    op: string,
    options: Readonly<Record<string, unknown>> = {},
    arrays: CallArrays = {},
    onEvent?: (event: Reply) => void,
  ): Promise<Reply> & { id: number } {
    const id = ++this.#lastId;
    const answer = new Promise<Reply>((resolve, reject) => {
      if (this.#loss) return void this.#loss.then(reject);
      const parts = this.#encode({ ...options, id, op }, arrays);
      this.#waiting.set(id, { op, since: performance.now(), resolve, reject, onEvent });
      this.#hold(immediate.has(op) ? 0 : 1);
      this.#write(parts);
    });
    return Object.assign(answer, { id });
  }

  /** What needs no answer. */
  tell(op: string, options: Readonly<Record<string, unknown>>): void {
    if (!this.#loss) this.#write(this.#encode({ ...options, id: ++this.#lastId, op }, {}));
  }

  /** After the greeting: both sides may now send more than a greeting needs. `taken`: the largest frame that the other one takes. */
  trust(taken = maxFrameBytes): void {
    this.#reader.limit = maxFrameBytes;
    this.#sendLimit = Math.min(taken, maxFrameBytes);
  }

  /** Also after close(): what was lost is to be had anew until that succeeds. */
  get lost(): boolean {
    return this.#lost;
  }

  /** Nobody is told of a loss after this; calls that wait are rejected with `error`. */
  close(error: StatesetError): void {
    this.#closed = true;
    this.#loss ??= Promise.resolve(error);
    this.#end(error);
  }

  /** For whoever learns of it first: of a process that ended, say. */
  lose(what: string): Promise<StatesetError> {
    return this.#lose({ what, stalled: false });
  }

  #encode(envelope: Readonly<Record<string, unknown>>, arrays: CallArrays): Uint8Array[] {
    return encodeFrame(envelope, arrays, this.#sendLimit);
  }

  #write(parts: readonly Uint8Array[]): void {
    this.#socket.cork();
    for (const part of parts) this.#socket.write(part);
    this.#socket.uncork();
  }

  #read(chunk: Buffer): void {
    this.#missed = 0;
    try {
      for (const frame of this.#reader.push(chunk)) this.#take(frame);
    } catch (error) {
      // What cannot be read says nothing about what comes after it, either.
      void this.#lose({ what: `broke the protocol: ${messageOf(error)}`, stalled: false });
    }
  }

  #take(frame: Frame): void {
    const { id, ok, event, error } = frame.envelope;
    const waiting = this.#waiting.get(id as number);
    if (this.#loss && waiting?.op !== "stacks") return;
    if (!waiting) throw new Error(`it answered call ${String(id)}, which nobody waits for`);
    if (!immediate.has(waiting.op)) this.#progress = performance.now();
    const reply = new Reply(waiting.op, frame);
    if (event !== undefined) {
      waiting.onEvent?.(reply);
      return;
    }
    if (typeof ok !== "boolean" || (!ok && !isObject(error))) throw new Error("a reply is neither granted nor refused");
    this.#waiting.delete(id as number);
    this.#hold(immediate.has(waiting.op) ? 0 : -1);
    if (ok) waiting.resolve(reply);
    else waiting.reject(refusal(waiting.op, error));
  }

  #beat(): void {
    const now = performance.now();
    for (const { op, since } of this.#waiting.values()) {
      const idle = now - Math.max(since, this.#progress);
      if (immediate.has(op) || idle <= this.#options.deadlineMs) continue;
      const seconds = Math.round(idle / 1000);
      return void this.#lose({ what: `got nowhere with ${op} for ${seconds} s`, stalled: true });
    }
    // While much is being sent, a heartbeat only waits its turn.
    if (this.#socket.writableLength === 0 && this.#missed++ >= mostMissed) {
      return void this.#lose({ what: `left ${mostMissed} heartbeats without an answer`, stalled: true });
    }
    this.call("ping").catch(() => {});
    this.#options.onBeat?.();
  }

  #lose(loss: Loss): Promise<StatesetError> {
    this.#lost ||= !this.#closed;
    // In a turn of its own: what a loss sets off may end in another one.
    this.#loss ??= Promise.resolve().then(() => this.#settle(loss));
    return this.#loss;
  }

  async #settle(loss: Loss): Promise<StatesetError> {
    const whole = { ...loss, ...(loss.stalled && (await this.#askForStacks())) };
    // Whoever waits must hear of it, whatever becomes of the explanation.
    const error = await (async () => this.#options.explain(whole))().catch(
      (cause: unknown) =>
        new StatesetError("WORKER_LOST", `The PyTorch worker ${loss.what}.`, {
          hint: `Why could not be found out: ${messageOf(cause)}.`,
          cause,
        }),
    );
    this.#end(error);
    return error;
  }

  /** Its own thread answers this, also while another hangs. */
  async #askForStacks(): Promise<Pick<Loss, "stacks" | "silent">> {
    const id = ++this.#lastId;
    const reply = new Promise<Reply>((resolve, reject) => {
      this.#waiting.set(id, { op: "stacks", since: 0, resolve, reject, onEvent: undefined });
      this.#write(this.#encode({ id, op: "stacks" }, {}));
    });
    reply.catch(() => {});
    const late = new Promise<undefined>((resolve) => setTimeout(resolve, stacksMs, undefined).unref());
    // Lost in the meantime, it says no more.
    const fields = (await Promise.race([reply, late]).catch(() => undefined))?.fields;
    if (typeof fields?.text !== "string") return {};
    const silent = Array.isArray(fields.silent) ? fields.silent.filter((rank) => Number.isInteger(rank)) : [];
    return { stacks: fields.text, silent: silent as number[] };
  }

  #end(error: StatesetError): void {
    clearInterval(this.#timer);
    this.#socket.destroy();
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  /** A policy that nobody waits for does not keep the process alive. */
  #hold(change: number): void {
    this.#pending += change;
    const needed = this.#pending > 0;
    if (needed === this.#held) return;
    this.#held = needed;
    for (const handle of [this.#socket, this.#timer]) needed ? handle.ref() : handle.unref();
  }
}
