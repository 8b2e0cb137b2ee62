import type { Algorithm } from "../algorithm/algorithm.ts";
import { StatesetError } from "../error.ts";
import type { Capabilities } from "../policy/policy.ts";
import type { TrainingConfig } from "./config.ts";

/** Asks before the first rollout whether the engine can do what the run will need of it, and names what it cannot. */
export function requireCapabilities(
  capabilities: Capabilities,
  { name, needs, trustRegion }: Algorithm,
  config: Pick<TrainingConfig, "entropyBonus" | "entropyQuantile">,
  model: string,
): void {
  const wanted: [keyof Capabilities, boolean, string][] = [
    ["values", needs.values === true, `${name} needs a value head`],
    ["entropy", needs.entropy === true, `${name} needs the entropy of each token`],
    ["entropy", config.entropyBonus > 0, "entropyBonus needs the entropy of each token"],
    ["entropy", config.entropyQuantile !== undefined, "entropyQuantile needs the entropy of each token"],
    ["vectors", trustRegion !== undefined, `${name} moves along vectors of parameters`],
  ];
  const missing = wanted.filter(([capability, needed]) => needed && !capabilities[capability]);
  if (missing.length === 0) return;
  const why = missing.map(([capability, , reason]) => `${reason} (${capability})`).join("; ");
  throw new StatesetError("CAPABILITY_MISSING", `The engine of ${model} cannot do what this run needs: ${why}.`, {
    hint: "Choose another algorithm, or leave the option out.",
  });
}
