/**
 * TRPO's step: minimise the surrogate subject to mean KL(old‖new) ≤ δ.
 *   x ≈ (F + damping·I)⁻¹·(−g) by conjugate gradient, F the Fisher matrix, g the surrogate's gradient;
 *   step = √(2δ / xᵀFx)·x, then shortened by `backtrackRatio` until the surrogate improves and the KL is within δ; else nothing moves.
 * Source: Schulman et al., "Trust Region Policy Optimization", 2015, appendix C.
 * Pure numerics over vectors that may live elsewhere, as on a GPU: a loop drives it with those of a policy, tests with a quadratic.
 */
import type { TrustRegion } from "./algorithm.ts";

/** What is asked of a vector. Whoever gets one from a function releases it. */
export interface Vector<V> {
  dot(other: V): Promise<number>;
  /** this ← this + scale · other */
  add(other: V, scale?: number): Promise<void>;
  scale(by: number): Promise<void>;
  copy(): Promise<V>;
  release(): void;
}

export interface TrustRegionProblem<V extends Vector<V>> {
  /** Gradient of the surrogate at the old policy. */
  gradient: V;
  /** F·v at the old policy, without damping. */
  fisherVectorProduct(v: V): Promise<V>;
  /** Sets the parameters to θ_old + offset; without one, to θ_old. */
  moveTo(offset?: V): Promise<void>;
  /** Surrogate (a loss) and mean KL(old‖new) where the parameters are now. */
  evaluate(): Promise<{ loss: number; kl: number }>;
}

export interface TrustRegionResult {
  accepted: boolean;
  /** Surrogate before and after; equal when nothing moved. */
  lossBefore: number;
  loss: number;
  kl: number;
  /** How often the step was shortened. */
  backtracks: number;
  /** Euclidean length of the step taken. */
  stepNorm: number;
}

export async function trustRegionStep<V extends Vector<V>>(
  problem: TrustRegionProblem<V>,
  options: Omit<TrustRegion, "kl">,
): Promise<TrustRegionResult> {
  const { maxKl, cgSteps, damping, backtracks, backtrackRatio } = options;
  const product = async (v: V) => {
    const fv = await problem.fisherVectorProduct(v);
    await fv.add(v, damping);
    return fv;
  };
  await problem.moveTo();
  const { loss: lossBefore } = await problem.evaluate();
  const stay = async (tried: number): Promise<TrustRegionResult> => {
    await problem.moveTo();
    return { accepted: false, lossBefore, loss: lossBefore, kl: 0, backtracks: tried, stepNorm: 0 };
  };

  const downhill = await problem.gradient.copy();
  await downhill.scale(-1);
  const step = await conjugateGradient(product, downhill, cgSteps);
  downhill.release();
  try {
    const image = await product(step);
    const curvature = await step.dot(image);
    image.release();
    if (!(curvature > 0) || !Number.isFinite(curvature)) return await stay(0);
    await step.scale(Math.sqrt((2 * maxKl) / curvature));
    for (let tried = 0; tried < backtracks; tried++) {
      if (tried > 0) await step.scale(backtrackRatio);
      await problem.moveTo(step);
      const { loss, kl } = await problem.evaluate();
      // NaN fails both comparisons and is treated as too far.
      if (loss < lossBefore && kl <= maxKl) {
        return { accepted: true, lossBefore, loss, kl, backtracks: tried, stepNorm: Math.sqrt(await step.dot(step)) };
      }
    }
    return await stay(backtracks);
  } finally {
    step.release();
  }
}

/** x with A·x ≈ b for a symmetric positive definite A given by its product; stops early when the residual is 1e-10 of b (squared). */
export async function conjugateGradient<V extends Vector<V>>(
  product: (v: V) => Promise<V>,
  b: V,
  steps: number,
): Promise<V> {
  const [x, residual, direction] = [await b.copy(), await b.copy(), await b.copy()];
  await x.scale(0);
  let rr = await residual.dot(residual);
  const enough = rr * 1e-10;
  for (let step = 0; step < steps && rr > enough; step++) {
    const image = await product(direction);
    const curvature = await direction.dot(image);
    if (curvature > 0) {
      const alpha = rr / curvature;
      await x.add(direction, alpha);
      await residual.add(image, -alpha);
    }
    image.release();
    if (!(curvature > 0)) break;
    const next = await residual.dot(residual);
    await direction.scale(next / rr);
    await direction.add(residual);
    rr = next;
  }
  residual.release();
  direction.release();
  return x;
}

/**
 * Fisher-vector products by a finite difference of the KL's gradient: F·v ≈ (∇KL(θ + h·v/‖v‖) − ∇KL(θ))·‖v‖/h.
 * h is a distance in parameter space: large enough that float32 parameters move, small enough that the KL is still quadratic.
 * release() lets go of the gradient at θ, which is kept between products.
 */
export function finiteDifferenceFisher<V extends Vector<V>>(
  moveTo: (offset?: V) => Promise<void>,
  klGradient: () => Promise<V>,
  distance = 1e-2,
): { product(v: V): Promise<V>; release(): void } {
  let atOld: V | undefined;
  return {
    async product(v) {
      const norm = Math.sqrt(await v.dot(v));
      const offset = await v.copy();
      // Of nothing: nothing.
      if (norm === 0) return offset;
      if (!atOld) {
        await moveTo();
        atOld = await klGradient();
      }
      await offset.scale(distance / norm);
      await moveTo(offset);
      offset.release();
      const there = await klGradient();
      await there.add(atOld, -1);
      await there.scale(norm / distance);
      return there;
    },
    release: () => atOld?.release(),
  };
}
