import { starterModelPath } from "@stateset-agents/starter-model";
import type { ModelInfo } from "../policy/policy.ts";
import { quantity } from "../telemetry/format.ts";

/** How people know a model: the bundled one lies at a path that says nothing. */
export function modelLabel(name: string): string {
  return name === starterModelPath ? "the starter model" : name;
}

/** A model in a plan. */
export function modelText({ name, stub, parameters, trainableParameters }: ModelInfo): string {
  const size = stub ? " (a stub)" : `, ${quantity(parameters)} parameters, ${quantity(trainableParameters)} trained`;
  return modelLabel(name) + size;
}
