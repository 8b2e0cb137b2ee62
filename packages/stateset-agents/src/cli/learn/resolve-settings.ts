import { z } from "zod";
import { learnerShapes } from "../../project/sections.ts";
import { readFitOptions } from "../../supervised/fit-options.ts";
import type { Settings } from "../settings.ts";
import type { Learner } from "./learner.ts";

/** Every setting, those that are left out as the run has them that goes on. Refuses what the learner would refuse once it has read its data. */
export function resolveSettings<E>(
  { section, kinds, where, check }: Learner<E>,
  settings: Settings,
  resumeFrom: string | undefined,
): Settings {
  // What a run is told beside its settings has flags, and cannot be --set.
  const on = resumeFrom === undefined ? {} : { resumeFrom };
  const schema = z.strictObject({
    ...learnerShapes[section],
    ...(resumeFrom !== undefined && { resumeFrom: z.string() }),
  });
  const resolved: Settings = readFitOptions(schema, { ...settings, ...on }, kinds, where);
  check?.(resolved, settings);
  return resolved;
}
