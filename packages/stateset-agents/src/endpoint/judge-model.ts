import type { Message } from "../conversation/message.ts";

/** One question to a model that judges. */
export interface JudgeRequest {
  messages: readonly Message[];
  temperature: number;
  seed: number;
  maxTokens: number;
  signal: AbortSignal;
}

export interface JudgeReply {
  text: string;
  /** Undefined when the endpoint did not say; the judge then estimates and says so in its stats. */
  usage?: { promptTokens: number; completionTokens: number };
}

/** A model that can be asked to judge: an HTTP endpoint, a local policy, or anything a user writes. */
export interface JudgeModel {
  /** Part of the cache key: two models must not share answers. */
  readonly id: string;
  /** Throws JudgeModelError for failures whose kind matters to retries. */
  complete(request: JudgeRequest): Promise<JudgeReply>;
}

/** A failed call. `retryable` failures are tried again; `retryAfterMs` is what the server asked for. */
export class JudgeModelError extends Error {
  override readonly name = "JudgeModelError";
  readonly kind: "rate-limit" | "server" | "network" | "rejected" | "malformed";
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(
    kind: JudgeModelError["kind"],
    message: string,
    details: { retryable?: boolean; retryAfterMs?: number | undefined; cause?: unknown } = {},
  ) {
    super(message, { cause: details.cause });
    this.kind = kind;
    this.retryable = details.retryable ?? kind !== "rejected";
    this.retryAfterMs = details.retryAfterMs;
  }
}
