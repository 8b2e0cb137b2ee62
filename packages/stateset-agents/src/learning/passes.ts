/** Forward and backward passes over micro-batches. Micro-batches only split the work; the result is that of the whole. */
import { hasCode, messageOf, StatesetError } from "../error.ts";
import type { Derivatives, Forward, ForwardOptions, Policy } from "../policy/policy.ts";
import type { MicroBatch } from "./micro-batch.ts";

/** One micro-batch's part of a loss, and its derivatives by what the pass gave. */
export interface LossShare {
  loss: number;
  derivatives: Derivatives;
}

/** Adds the gradient of a loss and returns the loss. Stops at a share that is not finite: then nothing should be stepped along. */
export async function addGradients(
  policy: Policy,
  batches: Iterable<MicroBatch>,
  want: Omit<ForwardOptions, "grad" | "temperature">,
  shareOf: (batch: MicroBatch, pass: Forward) => LossShare,
): Promise<{ loss: number; finite: boolean }> {
  let total = 0;
  for (const batch of batches) {
    const pass = await forward(policy, batch, want);
    const { loss, derivatives } = shareOf(batch, pass);
    const { logprobs, entropy, values } = derivatives;
    if (!Number.isFinite(loss) || [logprobs, entropy, values].some((d) => d && !d.every(Number.isFinite))) {
      pass.release();
      return { loss, finite: false };
    }
    total += loss;
    await policy.backward(pass, derivatives);
  }
  return { loss: total, finite: true };
}

/** Scores micro-batches without learning. */
export async function scorePasses(
  policy: Policy,
  batches: Iterable<MicroBatch>,
  want: Omit<ForwardOptions, "grad" | "temperature" | "recompute">,
  use: (batch: MicroBatch, pass: Forward) => void,
): Promise<void> {
  for (const batch of batches) {
    const pass = await forward(policy, batch, { ...want, grad: false });
    use(batch, pass);
    pass.release();
  }
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
