import { z } from "zod";
import { learningRateFor } from "../packages/stateset-agents/src/learning/optimiser.ts";
import { fitShape } from "../packages/stateset-agents/src/supervised/fit-options.ts";
import { defaultsOf } from "../packages/stateset-agents/src/training/defaults.ts";
import { settingsHash } from "./parallel.ts";

/**
 * Changes with every default of the library that results depend on: of an algorithm, or (undefined) of SFT. What is off is left out, so that
 * an option that is new and off leaves results standing; so does one that moves to another place.
 */
export function defaultsStamp(algorithm: string | undefined): string {
  const defaults = algorithm === undefined ? z.object(fitShape).parse({}) : defaultsOf(algorithm);
  const on = Object.entries(defaults).filter(([, value]) => value !== undefined && value !== false);
  return settingsHash(on.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** What train() chooses for the starter model. It follows from a model's size, so it is in no table of defaults. */
export const starterRate = learningRateFor({ parameters: 11_700_000 });
