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
  try {
    for (const batch of batches) {
      throwIfAborted(signal, "within an update");
      const pass = await forward(policy, batch, want);
      const share = used(pass, () => shareOf(batch, pass));
      if (!isWhole(share)) {
        pass.release();
        return Number.NaN;
      }
      total += share.loss;
      await policy.backward(pass, share.derivatives);
    }
    return total;
  } catch (error) {
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
  for (const batch of batches) {
    throwIfAborted(signal, "while scoring");
    const pass = await forward(policy, batch, { ...want, grad: false });
    used(pass, () => use(batch, pass));
    pass.release();
  }
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

async function forward(policy: Policy, { merged, temperature }: MicroBatch, want: ForwardOptions): Promise<Forward> {
  try {
    return await policy.forward(merged.tree, { ...want, temperature });
  } catch (error) {
    if (!hasCode(error, "OUT_OF_MEMORY")) throw error;
    const less = want.recompute || want.grad === false ? "" : ", or set recompute: true";
    throw new StatesetError("OUT_OF_MEMORY", `A micro-batch does not fit: ${messageOf(error)}`, {
      hint: `It holds ${merged.tree.tokens.length} tokens: lower tokenBudget${less}.`,
      cause: error,
    });
  }
}
