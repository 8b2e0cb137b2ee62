import { StatesetError } from "../error.ts";
import type { Policy } from "../policy/policy.ts";

export function requireTrainable(policy: Policy): void {
  if (!policy.model.stub && policy.model.trainableParameters > 0) return;
  const why = policy.model.stub ? "is a stub" : "has no trainable parameters";
  throw new StatesetError("NOT_TRAINABLE", `The policy "${policy.model.name}" ${why}.`);
}
