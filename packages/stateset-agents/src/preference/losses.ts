/** The losses of trainPreference() and the settings each of them has. */
import { z } from "zod";
import { dpoLoss } from "../algorithm/loss/dpo.ts";
import { hingeLoss } from "../algorithm/loss/hinge.ts";
import { ipoLoss } from "../algorithm/loss/ipo.ts";
import { orpoLoss } from "../algorithm/loss/orpo.ts";
import {
  type PreferenceLoss,
  type PreferenceLossName,
  preferenceLossNames,
  type SmoothedOptions,
} from "../algorithm/loss/preference.ts";
import { robustDpoLoss } from "../algorithm/loss/robust-dpo.ts";
import { StatesetError } from "../error.ts";
import type { FitTask } from "../supervised/fit.ts";
import { type Chosen, fitShape } from "../supervised/fit-options.ts";

/** Those that compare the two sides of a pair. */
export type PairLossName = Exclude<PreferenceLossName, "kto">;

const pairLosses: Record<PairLossName, (options: SmoothedOptions) => PreferenceLoss> = {
  dpo: dpoLoss,
  robust: robustDpoLoss,
  hinge: hingeLoss,
  ipo: ipoLoss,
  orpo: orpoLoss,
};

export function pairLoss(name: PairLossName, options: SmoothedOptions): PreferenceLoss {
  return pairLosses[name](options);
}

/** Every option that some loss has; `beta` is of all. */
const lossShape = {
  loss: z.enum(preferenceLossNames).default("dpo"),
  beta: z
    .number()
    .positive()
    .default(0.1)
    .describe(
      "How far the policy may move from the reference: smaller is further. Of ORPO the weight of the odds ratio.",
    ),
  labelSmoothing: z.number().min(0).lt(0.5).default(0).describe("Share of the labels taken to be wrong."),
  reference: z.enum(["start", "base"]).default("start").describe("What the policy is compared with."),
  desirableWeight: z.number().min(0).default(1).describe("Weight of the desirable completions."),
  undesirableWeight: z.number().min(0).default(1).describe("Weight of the undesirable completions."),
} as const;

type LossOption = Exclude<keyof typeof lossShape, "loss" | "beta">;

const ownOptions: Record<PreferenceLossName, readonly LossOption[]> = {
  dpo: ["reference", "labelSmoothing"],
  robust: ["reference", "labelSmoothing"],
  hinge: ["reference"],
  ipo: ["reference"],
  orpo: [],
  kto: ["reference", "desirableWeight", "undesirableWeight"],
};

const lossOptions = Object.keys(lossShape).filter((key): key is LossOption => key !== "loss" && key !== "beta");

export const settingsShape = { ...fitShape, ...lossShape } as const;

/** The settings of a run. Those that its loss does not read are not there. */
export type PreferenceSettings = Omit<z.output<z.ZodObject<typeof settingsShape>>, Chosen> & Record<Chosen, number>;

/** What trainPreference() has settled whatever the loss. */
export interface PreferenceRun extends Pick<FitTask, "policy" | "agent" | "on" | "defaults"> {
  settings: PreferenceSettings;
}

/** The part of the shape that the loss reads. */
export function shapeFor(loss: PreferenceLossName): typeof settingsShape {
  const read = Object.entries(settingsShape).filter(
    ([key]) => !lossOptions.includes(key as LossOption) || ownOptions[loss].includes(key as LossOption),
  );
  return Object.fromEntries(read) as typeof settingsShape;
}

/** The weights it started from are gone on a resume: what they gave is kept, and nothing else can be scored with them. */
export function fixedBy(reference: "start" | "base" | undefined): string[] {
  return reference === "start" ? ["data", "settings.reference"] : [];
}

/** Refuses options that the chosen loss would not read. `given` is what was written, without defaults. */
export function refuseOthers(
  loss: PreferenceLossName,
  given: Readonly<Record<string, unknown>>,
  labelSmoothing: number,
): void {
  for (const key of lossOptions) {
    if (given[key] === undefined || ownOptions[loss].includes(key)) continue;
    const owners = preferenceLossNames.filter((name) => ownOptions[name].includes(key));
    throw new StatesetError("INVALID_OPTION", `"${key}" is not an option of the loss "${loss}" in trainPreference().`, {
      hint: `It belongs to ${owners.map((name) => `"${name}"`).join(", ")}. Leave it out, or choose one of these.`,
    });
  }
  if (loss === "robust" && labelSmoothing === 0) {
    throw new StatesetError("INVALID_OPTION", 'The loss "robust" needs labelSmoothing: without it, it is DPO.', {
      hint: "Set labelSmoothing to the share of labels you think are wrong (0.1, say), below 0.5.",
    });
  }
}
