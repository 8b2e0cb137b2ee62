import { starterModelPath } from "@stateset-agents/starter-model";

/** How people know a model: the bundled one lies at a path that says nothing. */
export function modelLabel(name: string): string {
  return name === starterModelPath ? "the starter model" : name;
}
