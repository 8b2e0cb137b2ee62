import { differences } from "./differences.ts";

type Facts = Readonly<Record<string, unknown>>;

/** A setting that is not what it would be, had nothing been said. */
export interface ChangedSetting {
  /** Dotted: `kl.coefficient`. */
  path: string;
  /** Undefined: not set. */
  value: unknown;
  default: unknown;
}

export function settingsChanged(settings: Facts, defaults: Facts): ChangedSetting[] {
  return differences(defaults, settings).map(({ path, a, b }) => ({ path, value: b, default: a }));
}
