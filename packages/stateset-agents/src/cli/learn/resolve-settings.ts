import { z } from "zod";
import { learnerShapes } from "../../project/sections.ts";
import { runShape } from "../../run/options.ts";
import { readFitOptions } from "../../supervised/fit-options.ts";
import type { Settings } from "../settings.ts";
import type { Learner } from "./learner.ts";

/** Every setting, those that are left out as the run has them that goes on. Refuses what the learner would refuse once it has read its data. */
export function resolveSettings<E>(
  { section, kinds, where, check }: Learner<E>,
  settings: Settings,
  resumeFrom: string | undefined,
): Settings {
  const schema = z.strictObject({ ...learnerShapes[section], ...runShape });
  const given = { ...settings, ...(resumeFrom !== undefined && { resumeFrom }) };
  const resolved: Settings = readFitOptions(schema, given, kinds, where);
  check?.(resolved, settings);
  return resolved;
}
