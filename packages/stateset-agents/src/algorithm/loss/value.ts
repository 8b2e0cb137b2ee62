/**
 * Value loss: c_v · ½·max((V−R)², (clip(V, V_old ± c) − R)²), or ½(V−R)² without clipping. Aggregated as the policy term is.
 * Source: the PPO reference implementation (OpenAI baselines, 2017); Huang et al., "The 37 Implementation Details of PPO", 2022.
 */
import { StatesetError } from "../../error.ts";
import { addMetric } from "../metrics.ts";
import type { Term } from "./terms.ts";

export function valueTerm(coefficient: number, clip: number | null = null): Term {
  return ({ values, returns, oldValues }, weight, gradients, metrics) => {
    if (!values || !returns)
      throw new StatesetError("INVALID_DATA", "A loss with a value term came without values or returns.", {
        hint: "The algorithm's `needs.values` is set: ask the forward pass for values and spread advantages() into the sequence.",
      });
    gradients.values ??= new Float64Array(values.length);
    let loss = 0;
    let clipped = 0;
    for (let t = 0; t < values.length; t++) {
      const target = returns[t]!;
      let error = values[t]! - target;
      let slope = error;
      addMetric(metrics, "value", values[t]!);
      addMetric(metrics, "return", target);
      addMetric(metrics, "returnSquared", target * target);
      addMetric(metrics, "valueError", error);
      addMetric(metrics, "valueErrorSquared", error * error);
      if (clip !== null && oldValues) {
        const bounded = Math.min(oldValues[t]! + clip, Math.max(oldValues[t]! - clip, values[t]!));
        // Where the bound is in force and its error is the larger one, the target function is flat in V.
        if (bounded !== values[t] && Math.abs(bounded - target) > Math.abs(error)) {
          error = bounded - target;
          slope = 0;
          clipped++;
        }
      }
      loss += 0.5 * error * error;
      gradients.values[t]! += coefficient * weight * slope;
    }
    addMetric(metrics, "valueLoss", loss, values.length);
    if (clip !== null) addMetric(metrics, "valueClipFraction", clipped, values.length);
    return coefficient * weight * loss;
  };
}
