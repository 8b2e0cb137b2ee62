/** Constraints that are made once for the same tools, however many conversations there are. */
import { StatesetError } from "../../error.ts";
import type { ByteAutomaton, Sampler } from "../../policy/policy.ts";
import { type ConstraintOptions, compileConstraint } from "./compile-constraint.ts";

const mostKept = 16;

export class ConstraintCache {
  readonly #made = new Map<string, ByteAutomaton>();

  /** Refuses a policy that cannot be constrained. */
  constructor({ capabilities, model }: Pick<Sampler, "capabilities" | "model">) {
    if (capabilities.constrain) return;
    throw new StatesetError("INVALID_OPTION", `The option "constrain" does not work with ${model.name}.`, {
      hint: "Its engine cannot hold a reply to a grammar, or its vocabulary has no token for every byte. Leave it out: arguments are validated either way.",
    });
  }

  of(options: ConstraintOptions): ByteAutomaton {
    const { tools, format, limits, reasoning } = options;
    const shown = tools.map(({ function: { name, parameters } }) => ({ name, parameters }));
    const key = JSON.stringify([format.name, limits, reasoning, shown]);
    const known = this.#made.get(key);
    this.#made.delete(key);
    const made = known ?? compileConstraint(options);
    this.#made.set(key, made);
    if (this.#made.size > mostKept) this.#made.delete(this.#made.keys().next().value!);
    return made;
  }
}
