import { StatesetError } from "../error.ts";

/** Names a run may have: one folder, wherever it is put. */
const allowed = /^[\p{L}\p{N}][\p{L}\p{N} ._+-]*$/u;

/** Refuses a name that would leave its folder or be unreadable in a path. */
export function checkRunName(name: string): string {
  if (allowed.test(name) && !name.endsWith(".") && !name.endsWith(" ") && name.length <= 120) return name;
  throw new StatesetError("INVALID_OPTION", `${JSON.stringify(name)} cannot be the name of a run.`, {
    hint: "Use letters, digits, spaces, dots, dashes and underscores, beginning with a letter or a digit.",
  });
}

/** What learns and when, which sorts by time: `grpo-20261115-031205`. */
export function newRunName(what: string, now = new Date()): string {
  const plain = what.replace(/[^\p{L}\p{N}+-]+/gu, "-").replace(/^-+/, "") || "run";
  return `${plain}-${now.toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-")}`;
}
