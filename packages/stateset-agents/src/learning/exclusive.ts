import { StatesetError } from "../error.ts";
import type { Policy } from "../policy/policy.ts";

const learning = new WeakMap<Policy, string>();

/** Two learners on one policy would add their gradients up and step along the sum; the second is refused. */
export async function exclusively<T>(policy: Policy, who: string, work: () => Promise<T>): Promise<T> {
  const other = learning.get(policy);
  if (other !== undefined) {
    throw new StatesetError("INVALID_OPTION", `${who} cannot learn on ${policy.model.name} while ${other} does.`, {
      hint: "Await it first, or open the model twice.",
    });
  }
  learning.set(policy, who);
  try {
    return await work();
  } finally {
    learning.delete(policy);
  }
}
