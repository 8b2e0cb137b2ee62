import { z } from "zod";
import { fitShape } from "../packages/stateset-agents/src/supervised/fit-options.ts";
import { defaultsOf } from "../packages/stateset-agents/src/training/train.ts";
import { settingsHash } from "./parallel.ts";

/**
 * Changes with every default of the library that results depend on: of an algorithm, or (undefined) of SFT. What is off is left out, so that
 * an option that is new and off leaves results standing.
 */
export function defaultsStamp(algorithm: string | undefined): string {
  const defaults = algorithm === undefined ? z.object(fitShape).parse({}) : defaultsOf(algorithm);
  return settingsHash(Object.entries(defaults).filter(([, value]) => value !== undefined && value !== false));
}
