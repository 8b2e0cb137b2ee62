import { StatesetError } from "../error.ts";
import type { Policy } from "../policy/policy.ts";

/** Refuses LoRA+ where nothing would read it. `why` says what else keeps it from being read. */
export function requireLoraPlus({ model, capabilities }: Policy, ratio: number, why?: string): void {
  if (ratio === 1) return;
  const hint = "Leave loraPlusRatio out.";
  const reason = why ?? (model.lora ? undefined : `"${model.name}" has no adapter`);
  if (reason) {
    const text = `loraPlusRatio is the rate of an adapter's B matrices over that of A, and ${reason}.`;
    throw new StatesetError("INVALID_OPTION", text, {
      hint: why ? hint : "Open the model with `lora`, or leave it out.",
    });
  }
  if (!capabilities.loraPlus) {
    throw new StatesetError("CAPABILITY_MISSING", `The engine of ${model.name} has one rate for all of an adapter.`, {
      hint,
    });
  }
}

export function requireTrainable(policy: Policy): void {
  if (!policy.model.stub && policy.model.trainableParameters > 0) return;
  const why = policy.model.stub ? "is a stub" : "has no trainable parameters";
  throw new StatesetError("NOT_TRAINABLE", `The policy "${policy.model.name}" ${why}.`);
}
