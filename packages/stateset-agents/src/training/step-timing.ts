/** How long the parts of a step take, and how much of its updates sampling had computed already. */
import type { Policy } from "../policy/policy.ts";
import type { StepTiming, TimingRecord } from "../run/event.ts";

/** Begins when it is made. */
export class StepTimer {
  readonly #step: number;
  readonly #policy: Policy;
  readonly #startedAt = performance.now();
  #sampledAt = 0;
  #updatedAt = 0;
  #before = { trained: 0, reused: 0 };

  constructor(step: number, policy: Policy) {
    this.#step = step;
    this.#policy = policy;
  }

  sampled(): void {
    this.#sampledAt = performance.now();
    this.#before = countsOf(this.#policy);
  }

  updated(sampledTokens: number): StepTiming {
    this.#updatedAt = performance.now();
    const rolloutMs = this.#sampledAt - this.#startedAt;
    const counts = countsOf(this.#policy);
    const trained = counts.trained - this.#before.trained;
    return {
      step: this.#step,
      rolloutMs,
      updateMs: this.#updatedAt - this.#sampledAt,
      tokensPerSecond: (1000 * sampledTokens) / Math.max(1, rolloutMs),
      ...(trained > 0 && { reused: (counts.reused - this.#before.reused) / trained }),
    };
  }

  ended(timing: StepTiming): TimingRecord {
    return { ...timing, otherMs: performance.now() - this.#updatedAt };
  }
}

function countsOf(policy: Policy): { trained: number; reused: number } {
  const { trainedTokens = 0, reusedTokens = 0 } = policy.stats();
  return { trained: trainedTokens, reused: reusedTokens };
}
