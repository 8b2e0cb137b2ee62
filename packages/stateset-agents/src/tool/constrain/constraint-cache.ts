/** Constraints that are made once for the same tools, however many conversations there are. */
import { StatesetError } from "../../error.ts";
import type { ByteAutomaton, Sampler } from "../../policy/policy.ts";
import { Recent } from "../../recent.ts";
import { type ConstraintOptions, compileConstraint } from "./compile-constraint.ts";

const mostKept = 16;

/** What makes constraints differ, as text. */
export function constraintKey(options: ConstraintOptions): string {
  const { tools, format, limits, reasoning, choice = "auto", parallel = true, answer } = options;
  const shown = tools.map(({ function: { name, parameters } }) => ({ name, parameters }));
  return JSON.stringify([format?.name, limits, reasoning, choice, parallel, answer?.schema, shown]);
}

export class ConstraintCache {
  readonly #made = new Recent<ByteAutomaton>(mostKept);

  /** Refuses a policy that cannot be constrained. */
  constructor({ capabilities, model }: Pick<Sampler, "capabilities" | "model">) {
    if (capabilities.constrain) return;
    throw new StatesetError("INVALID_OPTION", `The option "constrain" does not work with ${model.name}.`, {
      hint: "Its engine cannot hold a reply to a grammar, or its vocabulary has no token for every byte. Leave it out: arguments are validated either way.",
    });
  }

  of(options: ConstraintOptions): ByteAutomaton {
    const key = constraintKey(options);
    return this.#made.get(key) ?? this.#made.set(key, compileConstraint(options));
  }
}
