/**
 * Compares a loss's derivatives with finite differences of its value, input by input:
 *   d ≈ (8·(f(+h) − f(−h)) − (f(+2h) − f(−2h))) / 12h, h = 2⁻⁷ for log-probs, entropies and values alike.
 * Inputs within 2h of a kink (a clip bound) are left out and counted: there the derivative jumps. A loss with stop-gradient factors must take
 * them from `sequence.frozen ?? sequence.logprobs`; frozen is set here to the log-probs before they were moved.
 */
import { StatesetError } from "../error.ts";
import type { Algorithm, BatchCounts, LossFunction, LossResult, LossSequence } from "./algorithm.ts";
import { countsOf, randomLossSequences, randomSequences, withPolicy } from "./random-batch.ts";

export interface GradientCheckOptions {
  /** The batch to check on. Default: random ones. */
  sequences?: readonly LossSequence[];
  counts?: BatchCounts;
  seed?: number;
  /** Random batches to try. Default 3. */
  batches?: number;
  /** Error that is accepted, relative to the largest derivative of the batch. Default 1e-4. */
  tolerance?: number;
}

export interface GradientMismatch {
  input: "logprobs" | "entropy" | "values";
  sequence: number;
  token: number;
  /** What the loss said. */
  stated: number;
  /** What its value does. */
  measured: number;
  /** |stated − measured| / largest derivative of the batch. */
  error: number;
}

export interface GradientCheck {
  /** True when all derivatives agree, and something was checked. */
  ok: boolean;
  checked: number;
  /** Inputs at a kink. */
  skipped: number;
  /** The largest disagreement, also when it is within the tolerance. */
  worst: GradientMismatch | undefined;
}

const inputs = [
  ["logprobs", "dLogprobs"],
  ["entropy", "dEntropy"],
  ["values", "dValues"],
] as const;

/** `checkGradient(loss).ok`; an algorithm is checked with its own advantages. */
export function checkGradient(target: LossFunction | Algorithm, options: GradientCheckOptions = {}): GradientCheck {
  if (typeof target !== "function" && typeof target?.loss !== "function") {
    throw new StatesetError("INVALID_OPTION", "checkGradient() needs a loss function or an Algorithm.", {
      hint: "defineAlgorithm() and createAlgorithm() make one.",
    });
  }
  const { seed = 1, batches = options.sequences ? 1 : 3, tolerance = 1e-4 } = options;
  const loss: LossFunction = typeof target === "function" ? target : (micro, counts) => target.loss(micro, counts);
  const total: GradientCheck = { ok: true, checked: 0, skipped: 0, worst: undefined };
  for (let n = 0; n < batches; n++) {
    const sequences = options.sequences ?? batchFor(target, seed + 1000 * n);
    const one = checkBatch(loss, sequences, options.counts ?? countsOf(sequences));
    total.checked += one.checked;
    total.skipped += one.skipped;
    if (one.worst && (!total.worst || one.worst.error > total.worst.error)) total.worst = one.worst;
  }
  // A loss that is a kink everywhere has not been checked at all.
  total.ok = total.checked > total.skipped && (total.worst?.error ?? 0) <= tolerance;
  return total;
}

function batchFor(target: LossFunction | Algorithm, seed: number): LossSequence[] {
  if (typeof target === "function") return randomLossSequences({ seed });
  const sequences = randomSequences({ seed });
  const advantages = target.advantages(sequences);
  return withPolicy(
    sequences.map((sequence, i) => ({ ...sequence, ...advantages[i]! })),
    { seed },
  );
}

function checkBatch(loss: LossFunction, batch: readonly LossSequence[], counts: BatchCounts) {
  const base = loss(batch, counts);
  const still = batch.map((own) => ({ ...own, frozen: own.frozen ?? own.logprobs }));
  const largest = largestDerivative(base);
  const mismatches: GradientMismatch[] = [];
  let skipped = 0;
  for (const [input, output] of inputs) {
    for (const [sequence, own] of batch.entries()) {
      const at = own[input];
      if (!at) continue;
      const stated = base[output]?.[sequence];
      if (stated && stated.length !== at.length) throw wrongLength(output, sequence, stated.length, at.length);
      for (let token = 0; token < at.length; token++) {
        const measured = differentiate(
          (moved) => loss(moved, counts).loss,
          still,
          base.loss,
          { input, sequence, token },
          largest,
        );
        if (measured === undefined) {
          skipped++;
          continue;
        }
        const said = stated?.[token] ?? 0;
        const error = Math.abs(said - measured) / Math.max(largest, 1e-12);
        mismatches.push({
          input,
          sequence,
          token,
          stated: said,
          measured,
          error: Number.isNaN(error) ? Infinity : error,
        });
      }
    }
  }
  const worst = mismatches.reduce<GradientMismatch | undefined>((a, b) => (a && a.error >= b.error ? a : b), undefined);
  return { checked: mismatches.length, skipped, worst };
}

/** The slope at one input, or undefined when it jumps within 2h. */
function differentiate(
  loss: (batch: readonly LossSequence[]) => number,
  batch: readonly LossSequence[],
  lossHere: number,
  { input, sequence, token }: Pick<GradientMismatch, "input" | "sequence" | "token">,
  largest: number,
): number | undefined {
  const own = batch[sequence]!;
  const x = own[input]![token]!;
  const here = { x, y: lossHere };
  const f = (delta: number) => {
    const moved = Float32Array.from(own[input]!);
    moved[token] = x + delta;
    return { x: moved[token]!, y: loss(batch.with(sequence, { ...own, [input]: moved })) };
  };
  const h = 2 ** -7;
  const [far, near, next, beyond] = [f(-2 * h), f(-h), f(h), f(2 * h)];
  const slopes = [slope(far, near), slope(near, here), slope(here, next), slope(next, beyond)];
  // Smooth: neighbouring slopes differ by about h·f″. A kink makes one difference stand out from the other two.
  const jumps = slopes.slice(1).map((s, i) => Math.abs(s - slopes[i]!));
  const [low, , high] = [...jumps].sort((a, b) => a - b);
  if (high! > 4 * low! + 1e-4 * largest) return undefined;
  // Inputs are float32, so that steps are h only nearly; the distances are taken as they came out.
  return (4 * slope(near, next) - slope(far, beyond)) / 3;
}

function slope(a: { x: number; y: number }, b: { x: number; y: number }): number {
  return (b.y - a.y) / (b.x - a.x);
}

function largestDerivative({ dLogprobs, dEntropy, dValues }: LossResult): number {
  let largest = 0;
  for (const own of [...dLogprobs, ...(dEntropy ?? []), ...(dValues ?? [])])
    for (const d of own) largest = Math.max(largest, Math.abs(d));
  return largest;
}

function wrongLength(output: string, sequence: number, is: number, should: number): StatesetError {
  return new StatesetError("INVALID_DATA", `${output}[${sequence}] has ${is} numbers for ${should} tokens.`, {
    hint: "A loss returns one derivative per token of each sequence.",
  });
}
