/**
 * Forward and backward passes over micro-batches. They only split the work: the result is that of the whole, but for rounding. A beginning
 * that conversations share is gone back through once in each micro-batch that has it, with the sum of their derivatives there, so that
 * the split decides the order of float32 sums. To make that exact, nothing could be shared.
 */
import { throwIfAborted } from "../abort.ts";
import { hasCode, messageOf, StatesetError } from "../error.ts";
import type { Derivatives, Forward, ForwardOptions, Policy } from "../policy/policy.ts";
import type { MicroBatch } from "./micro-batch.ts";

/** One micro-batch's part of a loss, and its derivatives by what the pass gave. */
export interface LossShare {
  loss: number;
  derivatives: Derivatives;
}

/**
 * Adds the gradient of a loss and returns the loss: NaN when it or a derivative is not finite, whatever the other micro-batches gave,
 * since there is nothing to step along then. When anything throws, or the signal fires between two passes, no gradient is left behind.
 */
export async function addGradients(
  policy: Policy,
  batches: Iterable<MicroBatch>,
  want: Omit<ForwardOptions, "grad" | "temperature">,
  shareOf: (batch: MicroBatch, pass: Forward) => LossShare,
  signal?: AbortSignal,
): Promise<number> {
  let total = 0;
  /** Those that were asked for and not waited for. */
  let backward: Promise<void> = Promise.resolve();
  try {
    for await (const { batch, pass } of passesOf(policy, batches, want, "within an update", signal)) {
      const share = used(pass, () => shareOf(batch, pass));
      if (!isWhole(share)) {
        pass.release();
        await backward;
        return Number.NaN;
      }
      total += share.loss;
      const before = backward;
      backward = fitting(policy, batch, want, policy.backward(pass, share.derivatives));
      // Seen when it is waited for.
      backward.catch(() => {});
      await (inFlight(policy) === 1 ? backward : before);
    }
    await backward;
    return total;
  } catch (error) {
    await backward.catch(() => {});
    await policy.zeroGradients().catch(() => {});
    throw error;
  }
}

/** Scores micro-batches without learning. */
export async function scorePasses(
  policy: Policy,
  batches: Iterable<MicroBatch>,
  want: Omit<ForwardOptions, "grad" | "temperature" | "recompute">,
  use: (batch: MicroBatch, pass: Forward) => void,
  signal?: AbortSignal,
): Promise<void> {
  for await (const { batch, pass } of passesOf(policy, batches, { ...want, grad: false }, "while scoring", signal)) {
    used(pass, () => use(batch, pass));
    pass.release();
  }
}

/**
 * The passes of micro-batches in order. An engine that bears several has the next ones asked for while the caller is at work on one, so
 * that it does not wait for us; those are released when the caller stops early.
 */
async function* passesOf(
  policy: Policy,
  batches: Iterable<MicroBatch>,
  want: ForwardOptions,
  when: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<{ batch: MicroBatch; pass: Forward }> {
  const source = batches[Symbol.iterator]();
  const asked: { batch: MicroBatch; coming: Promise<Forward> }[] = [];
  const ask = () => {
    const { value: batch, done } = source.next();
    if (done) return false;
    const coming = forward(policy, batch, want);
    coming.catch(() => {});
    asked.push({ batch, coming });
    return true;
  };
  try {
    for (;;) {
      throwIfAborted(signal, when);
      while (asked.length < inFlight(policy) && ask());
      const first = asked.shift();
      if (!first) return;
      yield { batch: first.batch, pass: await first.coming };
    }
  } finally {
    for (const { coming } of asked) coming.then((pass) => pass.release()).catch(() => {});
  }
}

function inFlight({ capabilities }: Policy): number {
  return capabilities.passesInFlight ?? 1;
}

/** A loss is somebody's code: when it throws, its pass must not stay in memory. */
function used<T>(pass: Forward, use: () => T): T {
  try {
    return use();
  } catch (error) {
    pass.release();
    throw error;
  }
}

function isWhole({ loss, derivatives: { logprobs, entropy, values } }: LossShare): boolean {
  return Number.isFinite(loss) && [logprobs, entropy, values].every((d) => d?.every(Number.isFinite) ?? true);
}

async function forward(policy: Policy, batch: MicroBatch, want: ForwardOptions): Promise<Forward> {
  const { merged, temperature } = batch;
  return fitting(policy, batch, want, policy.forward(merged.tree, { ...want, temperature }));
}

/** Says of a pass that memory does not hold how large it was, and what to lower. */
async function fitting<T>(policy: Policy, { merged }: MicroBatch, want: ForwardOptions, pass: Promise<T>): Promise<T> {
  try {
    return await pass;
  } catch (error) {
    if (!hasCode(error, "OUT_OF_MEMORY")) throw error;
    const { length } = merged.tree.tokens;
    const ranks = policy.capabilities.ranks ?? 1;
    const shared = ranks === 1 ? "" : ` on ${ranks} ranks`;
    const less = want.recompute || want.grad === false ? "" : ", or set recompute: true";
    throw new StatesetError("OUT_OF_MEMORY", `A micro-batch does not fit: ${messageOf(error)}`, {
      hint: `It holds ${length} tokens${shared}: lower tokenBudget below ${Math.ceil(length / ranks)}${less}.`,
      cause: error,
    });
  }
}
