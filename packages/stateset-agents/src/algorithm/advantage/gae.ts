/**
 * Generalised advantage estimation: δ_t = r_t + γ·V_{t+1} − V_t, Â_t = Σ_k (γλ)^k δ_{t+k}; value targets R_t = Â_t + V_t.
 * Source: Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation", 2016.
 *
 * Over turns: a Sequence holds sampled tokens only, so the last token of a reply bootstraps from the first token of the *next reply* and the
 * running sum is carried with it. What users or tools wrote has no value and no advantage here, so nothing leaks through it.
 * level "turn": a reply is one step (V of its first token, the sum of its rewards); its tokens share the advantage and the target.
 *
 * λ is 1 by default. Below it, what a token learns of a reward n tokens ahead is λ^n of it, plus what V has learnt to expect; V starts at 0 and
 * learns slowly, so that at 0.95 the first of three replies hardly learns, and whitening makes the distance from the end itself an advantage.
 *
 * V beyond the end is 0. With `bootstrap` it is V(state after the last token) where a limit ended the conversation (`endValue`): more would have come.
 * Source of that: Pardo et al., "Time Limits in Reinforcement Learning", 2018.
 */
import type { Advantages, Sequence } from "../algorithm.ts";
import { requireValues } from "./batch.ts";
import { penalise } from "./reinforce-plus-plus.ts";
import { repliesOf, tokenRewards } from "./turn-credit.ts";
import { whiten } from "./whiten.ts";

export interface GaeOptions {
  /** Default 1, or 0.99 where level is "turn". */
  gamma?: number | undefined;
  lambda?: number;
  level?: "token" | "turn";
  /** β of a KL penalty in the reward, on each token. */
  beta?: number;
  whiten?: boolean;
  /** Conversations that a limit ended are worth V after their last token, and not 0. */
  bootstrap?: boolean | undefined;
}

/** V beyond the last token. */
export function valueBeyond({ endValue }: Sequence, bootstrap = false): number {
  return bootstrap ? (endValue ?? 0) : 0;
}

/** Â of one chain of steps; `beyond` is V after the last. */
export function gae(
  rewards: ArrayLike<number>,
  values: ArrayLike<number>,
  gamma: number,
  lambda: number,
  beyond = 0,
): Float64Array {
  const advantages = new Float64Array(rewards.length);
  for (let t = rewards.length - 1, next = beyond, running = 0; t >= 0; t--) {
    running = rewards[t]! + gamma * next - values[t]! + gamma * lambda * running;
    advantages[t] = running;
    next = values[t]!;
  }
  return advantages;
}

/** A_t = Σ_{k<n} γ^k r_{t+k} + γ^n V_{t+n} − V_t (A2C's n-step advantage). */
export function nStep(
  rewards: ArrayLike<number>,
  values: ArrayLike<number>,
  gamma: number,
  steps: number,
  beyond = 0,
): Float64Array {
  return Float64Array.from(values, (value, t) => {
    const end = Math.min(t + steps, rewards.length);
    let sum = (values[end] ?? beyond) * gamma ** (end - t);
    for (let k = t; k < end; k++) sum += gamma ** (k - t) * rewards[k]!;
    return sum - value;
  });
}

export function gaeAdvantages(sequences: readonly Sequence[], options: GaeOptions = {}): Advantages[] {
  const { gamma = options.level === "turn" ? 0.99 : 1, lambda = 1, level = "token", beta = 0 } = options;
  return valueAdvantages(sequences, options.whiten ?? false, (sequence, values) => {
    const rewards = penalise(tokenRewards(sequence), sequence, beta);
    const beyond = valueBeyond(sequence, options.bootstrap);
    return level === "token"
      ? gae(rewards, values, gamma, lambda, beyond)
      : turnGae(sequence, rewards, values, gamma, lambda, beyond);
  });
}

function turnGae(
  { turn }: Sequence,
  rewards: Float64Array,
  values: ArrayLike<number>,
  gamma: number,
  lambda: number,
  beyond: number,
): { advantages: Float64Array; returns: Float64Array } {
  const replies = repliesOf(turn);
  const turnRewards = replies.map(({ first, last }) => rewards.subarray(first, last + 1).reduce((a, b) => a + b, 0));
  const turnValues = replies.map(({ first }) => values[first]!);
  const perTurn = gae(turnRewards, turnValues, gamma, lambda, beyond);
  const advantages = new Float64Array(turn.length);
  const returns = new Float64Array(turn.length);
  for (const [k, { first, last }] of replies.entries()) {
    advantages.fill(perTurn[k]!, first, last + 1);
    returns.fill(perTurn[k]! + turnValues[k]!, first, last + 1);
  }
  return { advantages, returns };
}

/** Runs an estimator on every sequence. Targets are Â + V unless it gives its own; they are never whitened. */
export function valueAdvantages(
  sequences: readonly Sequence[],
  whitened: boolean,
  estimate: (
    sequence: Sequence,
    values: Float32Array,
  ) => Float64Array | { advantages: Float64Array; returns: Float64Array },
): Advantages[] {
  const raw: Float64Array[] = [];
  const returns: Float32Array[] = [];
  for (const sequence of sequences) {
    const values = requireValues(sequence);
    const own = estimate(sequence, values);
    const advantages = own instanceof Float64Array ? own : own.advantages;
    raw.push(advantages);
    returns.push(Float32Array.from(own instanceof Float64Array ? own.map((a, t) => a + values[t]!) : own.returns));
  }
  const advantages = whitened ? whiten(raw) : raw;
  return returns.map((own, i) => ({ advantages: Float32Array.from(advantages[i]!), returns: own }));
}
