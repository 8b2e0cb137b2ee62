/**
 * TRPO's step: minimise the surrogate subject to mean KL(old‖new) ≤ δ.
 *   x ≈ (F + damping·I)⁻¹·(−g) by conjugate gradient, F the Fisher matrix, g the surrogate's gradient;
 *   step = √(2δ / xᵀFx)·x, then shortened by `backtrackRatio` until the surrogate improves and the KL is within δ; else nothing moves.
 * Source: Schulman et al., "Trust Region Policy Optimization", 2015, appendix C.
 * Pure numerics over callbacks: a loop drives it with policy.readVector / addVector; tests drive it with a quadratic.
 */
import type { TrustRegion } from "./algorithm.ts";

type Vector = Float32Array | Float64Array;

export interface TrustRegionProblem {
  /** Gradient of the surrogate at the old policy. */
  gradient: Vector;
  /** F·v at the old policy, without damping. */
  fisherVectorProduct(v: Float64Array): Promise<Vector> | Vector;
  /** Sets the parameters to θ_old + offset. */
  moveTo(offset: Float64Array): Promise<void> | void;
  /** Surrogate (a loss) and mean KL(old‖new) where the parameters are now. */
  evaluate(): Promise<{ loss: number; kl: number }> | { loss: number; kl: number };
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

export async function trustRegionStep(
  problem: TrustRegionProblem,
  options: Omit<TrustRegion, "kl">,
): Promise<TrustRegionResult> {
  const { maxKl, cgSteps, damping, backtracks, backtrackRatio } = options;
  const product = async (v: Float64Array) => {
    const fv = await problem.fisherVectorProduct(v);
    return filled(v.length, (i) => fv[i]! + damping * v[i]!);
  };
  const zero = new Float64Array(problem.gradient.length);
  await problem.moveTo(zero);
  const { loss: lossBefore } = await problem.evaluate();
  const stay = async (tried: number): Promise<TrustRegionResult> => {
    await problem.moveTo(zero);
    return { accepted: false, lossBefore, loss: lossBefore, kl: 0, backtracks: tried, stepNorm: 0 };
  };

  const direction = await conjugateGradient(
    product,
    filled(problem.gradient.length, (i) => -problem.gradient[i]!),
    cgSteps,
  );
  const curvature = dot(direction, await product(direction));
  if (!(curvature > 0) || !Number.isFinite(curvature)) return stay(0);
  const length = Math.sqrt((2 * maxKl) / curvature);
  const full = filled(direction.length, (i) => direction[i]! * length);

  for (let tried = 0; tried < backtracks; tried++) {
    const share = backtrackRatio ** tried;
    const step = filled(full.length, (i) => full[i]! * share);
    await problem.moveTo(step);
    const { loss, kl } = await problem.evaluate();
    // NaN fails both comparisons and is treated as too far.
    if (loss < lossBefore && kl <= maxKl) {
      return { accepted: true, lossBefore, loss, kl, backtracks: tried, stepNorm: Math.sqrt(dot(step, step)) };
    }
  }
  return stay(backtracks);
}

/** x with A·x ≈ b for a symmetric positive definite A given by its product; stops early when the residual is 1e-10 of b (squared). */
export async function conjugateGradient(
  product: (v: Float64Array) => Promise<Float64Array> | Float64Array,
  b: Float64Array,
  steps: number,
): Promise<Float64Array> {
  const x = new Float64Array(b.length);
  const residual = new Float64Array(b);
  const direction = new Float64Array(b);
  let rr = dot(residual, residual);
  const enough = rr * 1e-10;
  for (let step = 0; step < steps && rr > enough; step++) {
    const product_ = await product(direction);
    const curvature = dot(direction, product_);
    if (!(curvature > 0)) break;
    const alpha = rr / curvature;
    for (let i = 0; i < x.length; i++) {
      x[i]! += alpha * direction[i]!;
      residual[i]! -= alpha * product_[i]!;
    }
    const next = dot(residual, residual);
    const beta = next / rr;
    for (let i = 0; i < direction.length; i++) direction[i] = residual[i]! + beta * direction[i]!;
    rr = next;
  }
  return x;
}

/**
 * Fisher-vector products by a finite difference of the KL's gradient: F·v ≈ (∇KL(θ + h·v/‖v‖) − ∇KL(θ))·‖v‖/h.
 * h is a distance in parameter space: large enough that float32 parameters move, small enough that the KL is still quadratic.
 */
export function finiteDifferenceFisher(
  moveTo: (offset: Float64Array) => Promise<void> | void,
  klGradient: () => Promise<Vector> | Vector,
  distance = 1e-2,
): (v: Float64Array) => Promise<Float64Array> {
  let atOld: Vector | undefined;
  return async (v) => {
    const zero = new Float64Array(v.length);
    const norm = Math.sqrt(dot(v, v));
    if (norm === 0) return zero;
    if (!atOld) {
      await moveTo(zero);
      atOld = new Float64Array(await klGradient());
    }
    const base = atOld;
    await moveTo(filled(v.length, (i) => (v[i]! * distance) / norm));
    const there = await klGradient();
    return filled(v.length, (i) => ((there[i]! - base[i]!) * norm) / distance);
  };
}

/**
 * moveTo for parameters that can only be read and added to (policy.readVector, policy.addVector). Each move reads where the parameters are,
 * so float32 rounding does not add up over moves.
 */
export async function offsetMover(parameters: {
  read(): Promise<Float32Array>;
  add(delta: Float32Array): Promise<void>;
}): Promise<(offset: Float64Array) => Promise<void>> {
  const old = new Float32Array(await parameters.read());
  return async (offset) => {
    const now = await parameters.read();
    const delta = new Float32Array(old.length);
    for (let i = 0; i < delta.length; i++) delta[i] = Math.fround(old[i]! + offset[i]!) - now[i]!;
    await parameters.add(delta);
  };
}

/** A loop: map() of a typed array takes three times as long, which is felt where these are all parameters of a model. */
function filled(length: number, value: (i: number) => number): Float64Array {
  const out = new Float64Array(length);
  for (let i = 0; i < length; i++) out[i] = value(i);
  return out;
}

function dot(a: Vector, b: Vector): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}
