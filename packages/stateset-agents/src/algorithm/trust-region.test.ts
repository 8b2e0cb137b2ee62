import { describe, expect, it } from "vitest";
import { ArrayVector, arrayOf } from "../policy/array-vector.ts";
import type { ParameterVector } from "../policy/policy.ts";
import { conjugateGradient, finiteDifferenceFisher, trustRegionStep } from "./trust-region.ts";

const vector = (...values: number[]): ParameterVector => new ArrayVector(values);
const mapped = (v: ParameterVector, f: (x: number, i: number) => number) => vector(...arrayOf(v).map(f));

const region = { maxKl: 0.01, cgSteps: 10, damping: 0, backtracks: 10, backtrackRatio: 0.8 };

describe("conjugateGradient", () => {
  it("solves a symmetric positive definite system in as many steps as it has unknowns", async () => {
    const a = [
      [4, 1, 0],
      [1, 3, -1],
      [0, -1, 2],
    ];
    const b = [1, -2, 3];
    const times = (v: ParameterVector) => a.map((row) => row.reduce((s, c, i) => s + c * arrayOf(v)[i]!, 0));
    const x = arrayOf(await conjugateGradient(async (v) => vector(...times(v)), vector(...b), 3));
    for (const [i, row] of a.entries()) expect(row.reduce((s, c, j) => s + c * x[j]!, 0)).toBeCloseTo(b[i]!, 10);
  });

  it("gives zero for a zero right-hand side", async () => {
    const x = await conjugateGradient((v) => v.copy(), vector(0, 0), 5);
    expect([...arrayOf(x)]).toEqual([0, 0]);
  });
});

describe("trustRegionStep", () => {
  it("takes the step of length √(2δ / gᵀF⁻¹g) along the natural gradient of a quadratic", async () => {
    // Surrogate g·x, KL ½xᵀFx with F = diag(2, 8): the optimum is −√(2δ / gᵀF⁻¹g)·F⁻¹g, on the boundary KL = δ.
    const g = Float64Array.of(1, 2);
    const f = [2, 8];
    let at = new Float64Array(2);
    const result = await trustRegionStep(
      {
        gradient: vector(...g),
        fisherVectorProduct: async (v) => mapped(v, (x, i) => f[i]! * x),
        moveTo: async (offset) => {
          at = offset ? Float64Array.from(arrayOf(offset)) : new Float64Array(2);
        },
        evaluate: async () => ({
          loss: g[0]! * at[0]! + g[1]! * at[1]!,
          // A hair below, so that rounding does not put the boundary point outside.
          kl: 0.5 * (f[0]! * at[0]! ** 2 + f[1]! * at[1]! ** 2) * (1 - 1e-12),
        }),
      },
      region,
    );
    const scale = Math.sqrt(0.02 / (1 / 2 + 4 / 8));
    expect(result.accepted).toBe(true);
    expect(result.backtracks).toBe(0);
    expect(at[0]).toBeCloseTo((-scale * 1) / 2, 10);
    expect(at[1]).toBeCloseTo((-scale * 2) / 8, 10);
    expect(result.kl).toBeCloseTo(0.01, 10);
  });

  it("shortens the step until the KL fits, and moves nothing when nothing improves", async () => {
    let at = new Float64Array(1);
    const problem = {
      gradient: vector(1),
      fisherVectorProduct: (v: ParameterVector) => v.copy(),
      moveTo: async (offset?: ParameterVector) => {
        at = offset ? Float64Array.from(arrayOf(offset)) : new Float64Array(1);
      },
    };
    // The true KL is four times what F promises: 4·½x² ≤ δ needs a step half as long, so 0.8^k ≤ ½ → k = 4.
    const shorter = await trustRegionStep(
      { ...problem, evaluate: async () => ({ loss: at[0]!, kl: 2 * at[0]! ** 2 }) },
      region,
    );
    expect(shorter).toMatchObject({ accepted: true, backtracks: 4 });
    const stuck = await trustRegionStep(
      { ...problem, evaluate: async () => ({ loss: Math.abs(at[0]!), kl: 0 }) },
      region,
    );
    expect(stuck).toMatchObject({ accepted: false, stepNorm: 0, backtracks: 10 });
    expect([...at]).toEqual([0]);
    const broken = await trustRegionStep({ ...problem, evaluate: async () => ({ loss: Number.NaN, kl: 0 }) }, region);
    expect(broken.accepted).toBe(false);
  });

  it("learns a softmax bandit with float32 parameters and finite-difference Fisher products, each step within δ", async () => {
    // Three arms, advantage r − E[r] under the old policy, expectations taken exactly over the arms.
    const rewards = [0, 0.3, 1];
    const theta = new Float32Array(3);
    const softmax = () => {
      const e = Array.from(theta, Math.exp);
      const z = e.reduce((s, x) => s + x, 0);
      return e.map((x) => x / z);
    };
    const expected = () => softmax().reduce((s, p, i) => s + p * rewards[i]!, 0);
    const atFirst = expected();
    for (let step = 0; step < 12; step++) {
      const old = softmax();
      const baseline = expected();
      // ∇_θ Σ_a c_a·π(a) = π ⊙ (c − Σ π c)
      const through = (c: number[]) => {
        const p = softmax();
        const m = p.reduce((s, x, i) => s + x * c[i]!, 0);
        return vector(...p.map((x, i) => x * (c[i]! - m)));
      };
      const kl = () => softmax().reduce((s, p, i) => s + old[i]! * Math.log(old[i]! / p), 0);
      const start = Float32Array.from(theta);
      const moveTo = async (offset: ParameterVector = vector(0, 0, 0)) => {
        arrayOf(offset).forEach((x, i) => {
          theta[i] = start[i]! + x;
        });
      };
      // ∇ KL(old‖new) = π_new − π_old
      const fisher = finiteDifferenceFisher(moveTo, async () => vector(...softmax().map((p, i) => p - old[i]!)));
      const result = await trustRegionStep(
        {
          gradient: through(rewards.map((r) => baseline - r)),
          fisherVectorProduct: fisher.product,
          moveTo,
          evaluate: async () => ({ loss: baseline - expected(), kl: kl() }),
        },
        { ...region, damping: 1e-3 },
      );
      expect(result.accepted).toBe(true);
      expect(result.kl).toBeLessThanOrEqual(region.maxKl);
      expect(kl()).toBeLessThanOrEqual(region.maxKl);
      expect(expected()).toBeGreaterThan(baseline);
    }
    expect(atFirst).toBeCloseTo(1.3 / 3, 6);
    expect(expected()).toBeGreaterThan(0.9);
  });
});
