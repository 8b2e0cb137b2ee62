import type { z } from "zod";
import { StatesetError } from "../error.ts";
import type { Algorithm } from "./algorithm.ts";
import { type AlgorithmConfig, createAlgorithm, splitAlgorithmConfig } from "./algorithms.ts";
import type { schemas } from "./options.ts";

/**
 * Which algorithm, with its own options beside it: `{ algorithm: "dapo", epsilonHigh: 0.3 }`. Left out: GRPO.
 * An option of another algorithm is a type error and a runtime error. An `Algorithm` from defineAlgorithm() works too.
 */
export type AlgorithmChoice =
  | AlgorithmConfig
  | (Omit<GrpoOptions, "algorithm"> & { algorithm?: undefined } & NotOf<GrpoOptions>)
  | ({ algorithm: Algorithm } & NotOf<{ algorithm: unknown }>);

type GrpoOptions = z.input<(typeof schemas)["grpo"]>;
type KeysOf<T> = T extends unknown ? keyof T : never;
/** Every algorithm's option but these, refused. */
type NotOf<T> = { [K in Exclude<KeysOf<AlgorithmConfig>, keyof T>]?: undefined };

/** What was chosen: an algorithm; options, its name among them where it was given; or neither. */
export type ChosenAlgorithm = Algorithm | Record<string, unknown> | undefined;

/** Takes the algorithm's part out of flat options. `where` names them in errors. */
export function splitChoice(
  options: Readonly<Record<string, unknown>>,
  where: string,
): { chosen: ChosenAlgorithm; rest: Record<string, unknown> } {
  const { algorithm: own, rest } = splitAlgorithmConfig(options);
  const { algorithm, ...more } = own;
  if (typeof algorithm !== "object" || algorithm === null) {
    return { chosen: Object.keys(own).length === 0 ? undefined : own, rest };
  }
  const stray = Object.keys(more)[0];
  if (stray === undefined) return { chosen: algorithm as Algorithm, rest };
  throw new StatesetError("INVALID_OPTION", `"${stray}" cannot be given beside an Algorithm object in ${where}.`, {
    hint: "Give it to defineAlgorithm() or createAlgorithm() instead.",
  });
}

/** The algorithm that was chosen; GRPO when none was named. */
export function chosenAlgorithm(chosen: ChosenAlgorithm): Algorithm {
  if (typeof chosen?.loss === "function") return createAlgorithm(chosen as Algorithm);
  return createAlgorithm({ algorithm: "grpo", ...chosen } as AlgorithmConfig);
}
