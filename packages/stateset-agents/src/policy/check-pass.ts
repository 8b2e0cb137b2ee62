import { StatesetError } from "../error.ts";
import { checkTree } from "./check-tree.ts";
import type { ForwardOptions, TokenTree } from "./policy.ts";

/** Refuses what the engine could not compute. */
export function checkForward(
  batch: TokenTree,
  { temperature, values }: Required<Pick<ForwardOptions, "temperature" | "values">>,
  { vocabSize, contextLength, valueHead }: { vocabSize: number; contextLength: number; valueHead: boolean },
): void {
  checkTree(batch, vocabSize, contextLength);
  if (!(temperature > 0 && temperature < Infinity)) {
    throw new StatesetError("INVALID_OPTION", `forward() got the temperature ${temperature}; it must be above 0.`, {
      hint: "Greedy samples (temperature 0) carry the log-probs of temperature 1.",
    });
  }
  if (values && !valueHead) {
    throw new StatesetError("INVALID_OPTION", "forward() was asked for values, but there is no value head.", {
      hint: "Call addValueHead() first.",
    });
  }
}

/** One for every token of the pass. */
export function checkDerivatives(
  derivatives: Record<"logprobs" | "entropy" | "values", Float32Array | undefined>,
  tokens: number,
): void {
  for (const [what, derivative] of Object.entries(derivatives)) {
    if (derivative && derivative.length !== tokens) {
      throw new StatesetError(
        "INVALID_OPTION",
        `backward() got ${derivative.length} derivatives of ${what} for ${tokens} tokens.`,
      );
    }
  }
}

export function usedPass(): StatesetError {
  return new StatesetError("INVALID_OPTION", "backward() got a pass that was made without grad, or was used before.");
}
