import { starterModelPath } from "@stateset-agents/starter-model";
import { describe, expect, it } from "vitest";
import { planMemory, readShape } from "./plan.ts";

describe("planMemory", () => {
  const settings = { tokenBudget: 1000, recompute: false, reference: true };

  it("counts weights, optimiser, reference and activations in bytes", async () => {
    const shape = await readShape(starterModelPath);
    expect(shape).toMatchObject({ layers: 8, hiddenSize: 320 });
    const full = planMemory(shape, { ...settings, trainable: shape.parameters });
    expect(full.weights).toBe(4 * shape.parameters);
    expect(full.optimiser).toBe(12 * shape.parameters);
    expect(full.reference).toBe(full.weights);
    expect(full.total).toBe(full.weights + full.optimiser + full.reference + full.activations);
  });

  it("needs far less for adapters, and less still with recomputation", async () => {
    const shape = await readShape(starterModelPath);
    const full = planMemory(shape, { ...settings, trainable: shape.parameters });
    const adapters = planMemory(shape, { ...settings, trainable: 100_000 });
    expect(adapters.reference).toBe(0);
    expect(adapters.optimiser).toBeLessThan(full.optimiser / 50);
    const recomputed = planMemory(shape, { ...settings, trainable: 100_000, recompute: true });
    expect(recomputed.activations).toBeLessThan(adapters.activations / 10);
  });
});
