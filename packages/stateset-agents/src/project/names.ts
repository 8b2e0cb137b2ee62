/** What configuration files may name instead of building it in code; rewards are in rewards.ts. */
import { StatesetError } from "../error.ts";
import type { Tracker } from "../run/tracker.ts";
import { didYouMean } from "../suggest.ts";
import { tensorBoardTracker } from "../telemetry/tensorboard.ts";
import { wandbTracker } from "../telemetry/wandb.ts";

export const presetNames = ["customerService", "technicalSupport", "sales"] as const;
export type PresetName = (typeof presetNames)[number];

export const domainNames = ["retail", "booking"] as const;
export type DomainName = (typeof domainNames)[number];

export function domainNamed(name: unknown, where: string): DomainName {
  const plain = String(name).toLowerCase();
  const found = domainNames.find((domain) => domain === plain);
  if (found) return found;
  throw new StatesetError("INVALID_OPTION", `Unknown domain "${String(name)}" in ${where}.`, {
    hint: didYouMean(plain, domainNames),
  });
}

export const trackerNames = ["tensorboard", "wandb"] as const;
export type TrackerName = (typeof trackerNames)[number];

/** "customer_service", "technical-support" and "techSupport" all mean a preset. */
export function presetNamed(name: string, where: string): PresetName {
  const plain = name.toLowerCase().replace(/[-_ ]/g, "");
  const aliases: Record<string, PresetName> = { support: "customerService", techsupport: "technicalSupport" };
  const found = presetNames.find((preset) => preset.toLowerCase() === plain) ?? aliases[plain];
  if (found) return found;
  throw new StatesetError("INVALID_OPTION", `Unknown preset "${name}" in ${where}.`, {
    hint: didYouMean(name, presetNames),
  });
}

export function trackerNamed(name: string, where: string): Tracker {
  switch (name) {
    case "tensorboard":
      return tensorBoardTracker();
    case "wandb":
      return wandbTracker();
    default:
      throw new StatesetError("INVALID_OPTION", `Unknown tracker "${name}" in ${where}.`, {
        hint: didYouMean(name, trackerNames),
      });
  }
}
