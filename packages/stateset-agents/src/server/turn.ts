/** A request's turn at the engine: its place in the queue, its deadline, its client that may leave. */
import { linkSignals, withDeadline } from "../abort.ts";
import { hasCode } from "../error.ts";
import type { Policy } from "../policy/policy.ts";
import { type Priority, tooLate } from "./admission/admission.ts";
import type { Exchange } from "./exchange.ts";
import { HttpError } from "./http-error.ts";
import { engineFailed, type ServedModel } from "./served-model.ts";

export interface TurnRequest {
  model: ServedModel;
  /** What it may cost, and the slots of the engine that it takes. */
  tokens: number;
  slots: number;
  priority: Priority;
  /** Milliseconds from the request's arrival, in place of the server's own. */
  deadlineMs: number | undefined;
}

/** Does the work of the turn, and ends it. Must be called, once. Work that was broken off rejects with ABORTED. */
export type Turn = <T>(work: (policy: Policy, signal: AbortSignal) => Promise<T>) => Promise<T>;

export async function waitForTurn(request: TurnRequest, exchange: Exchange): Promise<Turn> {
  const { model, tokens, slots, priority, deadlineMs = exchange.deadlineMs } = request;
  const { caller, signal, arrived, measure } = exchange;
  // Not while the engine is away: who comes then is told to come later.
  const { policy: before } = model;
  exchange.reserve(tokens);
  const deadline = deadlineMs === undefined ? undefined : arrived + deadlineMs;
  const ticket = { key: caller.keyId, priority, tokens, slots, deadline, signal };
  const admitted = await model.admission.enter(ticket).catch((error: unknown) => {
    throw hasCode(error, "ABORTED") ? brokenOff(signal) : error;
  });
  let policy: Policy;
  try {
    policy = await present(model, before, { signal, deadline });
  } catch (error) {
    admitted.leave();
    throw hasCode(error, "ABORTED") ? brokenOff(signal) : error;
  }
  measure.queuedMs = admitted.queuedMs;
  return async (work) => {
    const link = linkSignals(signal);
    const late = deadline === undefined ? undefined : setTimeout(link.abort, Math.max(0, deadline - performance.now()));
    try {
      return await work(policy, link.signal);
    } catch (error) {
      model.noteFailure(error);
      throw hasCode(error, "ABORTED") ? brokenOff(signal) : error;
    } finally {
      clearTimeout(late);
      link.unlink();
      admitted.leave();
    }
  };
}

/** Who answers now. An engine that failed while a request waited is waited for, where it is being opened again. */
async function present(
  model: ServedModel,
  before: Policy,
  { signal, deadline }: { signal: AbortSignal; deadline: number | undefined },
): Promise<Policy> {
  if (model.state !== "reopening") return sameTokens(model, before, model.policy);
  const left = deadline !== undefined && { timeoutMs: deadline - performance.now(), timedOut: tooLate };
  const during = "while the engine was opened again";
  return sameTokens(model, before, await withDeadline(() => model.reopened(), { ...left, signal, during }));
}

/** What waited was made into tokens for the engine that failed; where another model was opened in its place they mean nothing. */
function sameTokens({ name }: ServedModel, before: Policy, now: Policy): Policy {
  const shapeOf = ({ model, tokenizer }: Policy) =>
    [model.contextLength, model.vocabSize, tokenizer.vocabSize, ...model.endTokens].join(" ");
  if (now === before || shapeOf(now) === shapeOf(before)) return now;
  throw engineFailed(`${name} failed, and another model was opened in its place`);
}

/** By whose doing it ended: the server's that ends, the client's, or its deadline's. */
function brokenOff(client: AbortSignal): HttpError {
  if (client.reason instanceof HttpError) return client.reason;
  if (client.aborted) return new HttpError(499, "The client closed the request.", { code: "aborted" });
  return new HttpError(408, "The deadline passed while the reply was sampled.", {
    code: "deadline_exceeded",
    headers: { "x-should-retry": "false" },
  });
}
