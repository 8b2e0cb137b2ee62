/** What a step's sampled tokens say of the policy as a whole, whichever of them carried gradient. */
import type { Learner } from "./learner.ts";
import { gather, microBatches } from "./micro-batch.ts";
import { batchTokens } from "./optimiser.ts";
import { scorePasses } from "./passes.ts";
import type { ChainSequence } from "./sequence.ts";

/** E[−log p] of sampled tokens is the entropy of the policy that sampled them. */
export function sampledEntropy(sequences: readonly Pick<ChainSequence, "old">[]): number {
  let [sum, count] = [0, 0];
  for (const { old } of sequences) {
    for (const logprob of old) sum -= logprob;
    count += old.length;
  }
  return sum / count;
}

/** Enough to tell a step from a leap; all of them would cost a third of an update. */
const scoredAgain = 4;

/**
 * KL(policy that sampled ‖ policy as it is now) per token: k3 on a few of the step's conversations, spread over its groups, scored again.
 * One update a rollout never sees its own effect, so this is the only place where it shows before the next rollout.
 */
export async function policyMove(
  { policy, settings }: Pick<Learner, "policy" | "settings">,
  sequences: readonly ChainSequence[],
): Promise<number> {
  const stride = Math.max(1, sequences.length / scoredAgain);
  const chosen = sequences.filter((_, i) => Math.floor(i / stride) !== Math.floor((i - 1) / stride));
  let [sum, count] = [0, 0];
  const batches = microBatches(chosen, chosen.keys(), batchTokens(policy, settings.tokenBudget));
  await scorePasses(policy, batches, {}, (batch, pass) => {
    gather(batch, pass.logprobs).forEach((now, i) => {
      const { old } = chosen[batch.members[i]!]!;
      for (let t = 0; t < old.length; t++) {
        const logRatio = now[t]! - old[t]!;
        // Beyond this the exponential only says that the ratio is large; the linear part says how far.
        sum += Math.expm1(Math.min(logRatio, 3)) - Math.min(logRatio, 3) + Math.max(0, logRatio - 3);
      }
      count += old.length;
    });
  });
  return sum / count;
}
