import { describe, expect, it } from "vitest";
import { didYouMean, nearest } from "./suggest.ts";

describe("nearest", () => {
  it("finds the option a typo meant, whatever the case and separators", () => {
    expect(nearest("learningrate", ["learningRate", "weightDecay"])).toBe("learningRate");
    expect(nearest("learning_rat", ["learningRate", "weightDecay"])).toBe("learningRate");
    expect(nearest("grop", ["grpo", "gspo", "dapo"])).toBe("grpo");
  });
  it("of two as near finds the one that goes on where the name stops", () => {
    expect(nearest("finalLearningRate", ["learningRate", "finalLearningRateShare"])).toBe("finalLearningRateShare");
  });
  it("suggests nothing when nothing is near, and then lists what is valid", () => {
    expect(nearest("banana", ["learningRate", "seed"])).toBeUndefined();
    expect(didYouMean("banana", ["learningRate", "seed"])).toBe("Valid: learningRate, seed.");
  });
});

it("finds nothing near to what is too long for a name, whoever wrote it", () => {
  expect(nearest("y".repeat(5_000_000), ["y".repeat(5_000_000)])).toBeUndefined();
});
