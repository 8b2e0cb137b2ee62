import { StatesetError } from "../error.ts";
import type { StepOptions } from "./policy.ts";

const fromZero = (value: number) => value >= 0 && value < Infinity;
const share = (value: number) => value >= 0 && value < 1;

/** What each number must be; anything else would destroy the weights, or move them the wrong way. */
const rules: Record<string, [fits: (value: number) => boolean, wanted: string]> = {
  learningRate: [fromZero, "a number from 0"],
  valueLearningRate: [fromZero, "a number from 0"],
  loraPlusRatio: [(value) => value > 0 && value < Infinity, "a number above 0"],
  beta1: [share, "a number from 0 and below 1"],
  beta2: [share, "a number from 0 and below 1"],
  epsilon: [(value) => value > 0 && value < Infinity, "a number above 0"],
  weightDecay: [fromZero, "a number from 0"],
  clipNorm: [(value) => value >= 0, "a number from 0"],
};

/** What an engine is told: every number with its default, but for those whose absence says something. */
export interface CheckedStep {
  learningRate: number;
  valueLearningRate: number | undefined;
  loraPlusRatio: number | undefined;
  beta1: number;
  beta2: number;
  epsilon: number;
  weightDecay: number;
  clipNorm: number | undefined;
  scope: "all" | "policy" | "value";
}

/** With the defaults of AdamW. */
export function checkStep(options: StepOptions, { hasAdapter }: { hasAdapter: boolean }): CheckedStep {
  const { learningRate, valueLearningRate, loraPlusRatio, clipNorm, scope = "all" } = options;
  if (loraPlusRatio !== undefined && !hasAdapter) {
    throw new StatesetError("INVALID_OPTION", "step() got loraPlusRatio, but the model has no adapter.", {
      hint: "Open it with `lora`, or leave loraPlusRatio out.",
    });
  }
  const { beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0 } = options;
  const numbers = { learningRate, valueLearningRate, loraPlusRatio, beta1, beta2, epsilon, weightDecay, clipNorm };
  for (const [key, value] of Object.entries(numbers)) {
    const [fits, wanted] = rules[key]!;
    if (value !== undefined && !fits(value)) {
      throw new StatesetError("INVALID_OPTION", `step() got ${key} = ${value}; it must be ${wanted}.`);
    }
  }
  return { ...numbers, scope };
}
