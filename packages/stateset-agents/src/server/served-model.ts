/** One model as it is served: who answers, its queue, and the conversations it knows. */
import { ChainIndex } from "../agent/chain-index.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { ByteAutomaton, Policy } from "../policy/policy.ts";
import type { ConstraintOptions } from "../tool/constrain/compile-constraint.ts";
import { type ConstraintCompiler, createConstraintCompiler } from "../tool/constrain/compile-in-worker.ts";
import { constraintKey } from "../tool/constrain/constraint-cache.ts";
import type { CallFormat } from "../tool/format/call-format.ts";
import { callFormats, toolsOfTemplate } from "../tool/format/choose-format.ts";
import { type Admission, createAdmission } from "./admission/admission.ts";
import { HttpError } from "./http-error.ts";
import { createKeyTurns } from "./key-turns.ts";
import type { MeasuredModel } from "./observe/metrics.ts";

/** An agent or a policy that is open; or a way to open one, which is called again when the engine has failed. */
export type ModelSource = MultiTurnAgent | Policy | (() => Promise<MultiTurnAgent | Policy>);

export type ModelState = "ready" | "reopening" | "failed";

export interface ServedModelOptions {
  name: string;
  source: ModelSource;
  maxWaiting: number;
  /** Whether callers can be told apart, so that none may take all of it. */
  shared: boolean;
  /** The longest that the making of a constraint may take. Left out: what strangers are given. */
  constraintMs?: number;
  /** Told of an engine that failed and of what came of it. */
  onEngine?: (event: { model: string; state: ModelState; cause?: unknown }) => void;
}

/** Chains of conversations that may go on: each a few kilobytes. */
const keptChains = { chains: 4096, tokens: 1 << 22 };

export class ServedModel {
  /** As clients call it. */
  readonly name: string;
  /** Seconds since 1970. */
  readonly created = Math.floor(Date.now() / 1000);
  readonly chains = new ChainIndex(keptChains);
  readonly admission: Admission;
  readonly #constraints: ConstraintCompiler;
  readonly #turns = createKeyTurns<ByteAutomaton>("schemas");
  readonly #options: ServedModelOptions;
  #opened: Opened;
  #state: ModelState = "ready";
  /** Settles, and never rejects, when it is known what came of opening it again. */
  #reopening: Promise<void> = Promise.resolve();
  #reopened = false;
  #closed = false;
  /** The weights that took the place of those it was opened with. */
  #loaded: string | undefined;
  #format: CallFormat | undefined;
  readonly #cacheBytesMax: number;

  private constructor(own: Opened, options: ServedModelOptions) {
    const { agent } = own;
    const { stub } = agent.policy.model;
    this.name = stub && !options.name.includes("stub") ? `${options.name}-stub` : options.name;
    this.#opened = own;
    this.#options = options;
    const { constraintMs } = options;
    this.#constraints = createConstraintCompiler(constraintMs === undefined ? {} : { timeoutMs: constraintMs });
    const { slots } = agent.policy.stats();
    this.#cacheBytesMax = stub ? 0 : agent.policy.plan({ tokenBudget: 1, recompute: true, reference: false }).cache;
    this.admission = createAdmission({ slots, maxWaiting: options.maxWaiting, shared: options.shared });
  }

  static async open(options: ServedModelOptions): Promise<ServedModel> {
    return new ServedModel(await opened(options.source), options);
  }

  get state(): ModelState {
    return this.#state;
  }

  get agent(): MultiTurnAgent {
    if (this.#state === "ready") return this.#opened.agent;
    throw engineFailed(
      this.#state === "reopening" ? `${this.name} failed and is being opened again` : `${this.name} failed`,
    );
  }

  get policy(): Policy {
    return this.agent.policy;
  }

  /** Its policy, once an engine that is being opened again is there. */
  async reopened(): Promise<Policy> {
    await this.#reopening;
    return this.policy;
  }

  /** How it writes calls of tools. */
  get callFormat(): CallFormat {
    const { callFormat } = this.#opened.agent.options;
    this.#format ??= callFormat ? callFormats[callFormat] : toolsOfTemplate(this.#opened.agent.policy.tokenizer).format;
    return this.#format;
  }

  /** What holds a reply to schemas, made in a thread of its own, where keys take turns. */
  constraint(keyId: string, options: ConstraintOptions): Promise<ByteAutomaton> {
    return this.#turns.run(keyId, constraintKey(options), () => this.#constraints.compile(options));
  }

  /** What metrics are read from; nothing while the engine is away. */
  measured(): MeasuredModel[] {
    if (this.#state !== "ready") return [];
    const { version } = this.policy;
    const { waiting, running } = this.admission;
    const stats = this.policy.stats();
    return [{ name: this.name, version, stats, waiting, running, cacheBytesMax: this.#cacheBytesMax }];
  }

  /** To be called whenever a request failed, with what it failed with. An engine that failed is opened again, once. */
  noteFailure(error: unknown): void {
    if (this.#state !== "ready" || !this.#opened.agent.policy.stats().failed) return;
    const { source, onEngine, name } = this.#options;
    const tell = (state: ModelState, cause?: unknown) => {
      this.#state = state;
      if (!this.#closed) onEngine?.({ model: name, state, cause });
    };
    if (typeof source !== "function" || this.#reopened) {
      tell("failed", error);
      return;
    }
    this.#reopened = true;
    tell("reopening", error);
    const failed = this.#opened;
    this.chains.clear();
    const again = async () => {
      await failed.close();
      const next = await opened(source);
      // Nobody waited for it.
      if (this.#closed) return next.close();
      this.#opened = next;
      if (this.#loaded !== undefined) await next.agent.policy.load(this.#loaded);
      tell("ready");
    };
    this.#reopening = again().catch((cause: unknown) => tell("failed", cause));
  }

  /** Other weights of the same shape, while it serves: replies that run end on those they began with. */
  async load(folder: string): Promise<string> {
    const { policy } = this;
    try {
      const { version } = await policy.load(folder);
      this.#loaded = folder;
      return version;
    } catch (error) {
      this.noteFailure(error);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#constraints.close();
    await this.#opened.close();
  }
}

/** `what` completes "The engine of …". */
export function engineFailed(what: string): HttpError {
  const headers = { "retry-after": "1" };
  return new HttpError(503, `The engine of ${what}.`, { code: "engine_failed", headers });
}

interface Opened {
  agent: MultiTurnAgent;
  close(): Promise<void>;
}

/** What was given open is the giver's to close. */
async function opened(source: ModelSource): Promise<Opened> {
  const given = typeof source === "function" ? await source() : source;
  const close = typeof source === "function" ? () => given.close().catch(() => {}) : async () => {};
  if (!(given instanceof MultiTurnAgent)) return { agent: new MultiTurnAgent({ policy: given }), close };
  await given.initialize();
  return { agent: given, close };
}
