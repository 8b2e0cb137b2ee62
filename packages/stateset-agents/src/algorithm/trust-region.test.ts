import { describe, expect, it } from "vitest";
import { conjugateGradient, finiteDifferenceFisher, offsetMover, trustRegionStep } from "./trust-region.ts";

const region = { maxKl: 0.01, cgSteps: 10, damping: 0, backtracks: 10, backtrackRatio: 0.8 };

describe("conjugateGradient", () => {
  it("solves a symmetric positive definite system in as many steps as it has unknowns", async () => {
    const a = [
      [4, 1, 0],
      [1, 3, -1],
      [0, -1, 2],
    ];
    const b = Float64Array.of(1, -2, 3);
    const x = await conjugateGradient(
      (v) => Float64Array.from(a, (row) => row.reduce((s, c, i) => s + c * v[i]!, 0)),
      b,
      3,
    );
    for (const [i, row] of a.entries()) expect(row.reduce((s, c, j) => s + c * x[j]!, 0)).toBeCloseTo(b[i]!, 10);
  });

  it("gives zero for a zero right-hand side", async () => {
    expect([...(await conjugateGradient((v) => v, new Float64Array(2), 5))]).toEqual([0, 0]);
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
        gradient: g,
        fisherVectorProduct: (v) => v.map((x, i) => f[i]! * x),
        moveTo: (offset) => {
          at = Float64Array.from(offset);
        },
        evaluate: () => ({
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
      gradient: Float64Array.of(1),
      fisherVectorProduct: (v: Float64Array) => v,
      moveTo: (offset: Float64Array) => {
        at = Float64Array.from(offset);
      },
    };
    // The true KL is four times what F promises: 4·½x² ≤ δ needs a step half as long, so 0.8^k ≤ ½ → k = 4.
    const shorter = await trustRegionStep(
      { ...problem, evaluate: () => ({ loss: at[0]!, kl: 2 * at[0]! ** 2 }) },
      region,
    );
    expect(shorter).toMatchObject({ accepted: true, backtracks: 4 });
    const stuck = await trustRegionStep({ ...problem, evaluate: () => ({ loss: Math.abs(at[0]!), kl: 0 }) }, region);
    expect(stuck).toMatchObject({ accepted: false, stepNorm: 0, backtracks: 10 });
    expect([...at]).toEqual([0]);
    const broken = await trustRegionStep({ ...problem, evaluate: () => ({ loss: Number.NaN, kl: 0 }) }, region);
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
    const start = expected();
    for (let step = 0; step < 12; step++) {
      const old = softmax();
      const baseline = expected();
      // ∇_θ Σ_a c_a·π(a) = π ⊙ (c − Σ π c)
      const through = (c: number[]) => {
        const p = softmax();
        const m = p.reduce((s, x, i) => s + x * c[i]!, 0);
        return Float64Array.from(p, (x, i) => x * (c[i]! - m));
      };
      const kl = () => softmax().reduce((s, p, i) => s + old[i]! * Math.log(old[i]! / p), 0);
      const moveTo = await offsetMover({
        read: async () => theta,
        add: async (delta) => {
          for (let i = 0; i < 3; i++) theta[i]! += delta[i]!;
        },
      });
      const result = await trustRegionStep(
        {
          gradient: through(rewards.map((r) => baseline - r)),
          // ∇ KL(old‖new) = π_new − π_old
          fisherVectorProduct: finiteDifferenceFisher(moveTo, () =>
            Float64Array.from(softmax(), (p, i) => p - old[i]!),
          ),
          moveTo,
          evaluate: () => ({ loss: baseline - expected(), kl: kl() }),
        },
        { ...region, damping: 1e-3 },
      );
      expect(result.accepted).toBe(true);
      expect(result.kl).toBeLessThanOrEqual(region.maxKl);
      expect(kl()).toBeLessThanOrEqual(region.maxKl);
      expect(expected()).toBeGreaterThan(baseline);
    }
    expect(start).toBeCloseTo(1.3 / 3, 6);
    expect(expected()).toBeGreaterThan(0.9);
  });
});
