import { fingerprint } from "../../describe.ts";
import { StatesetError } from "../../error.ts";
import type { Scenario } from "../scenario.ts";
import type { User } from "./user.ts";

/** Says its lines in order, whatever the agent answers, and hangs up after the last. */
export function scriptedUser(
  lines: readonly string[] | ((scenario: Scenario) => readonly string[]),
): User & { describe(): Record<string, unknown> } {
  const check = (all: readonly string[]) => {
    if (!Array.isArray(all)) {
      throw new StatesetError("INVALID_OPTION", "scriptedUser() got what is no list of lines.", {
        hint: 'Give it the lines, or a function of the scenario that does: scriptedUser(["It is 48213.", "Thanks."]).',
      });
    }
    const bad = all.findIndex((line) => typeof line !== "string" || line.trim() === "");
    if (bad < 0) return all;
    throw new StatesetError("INVALID_OPTION", `Line ${bad + 1} of scriptedUser() is no text, or empty.`, {
      hint: "A user who has no more to say hangs up.",
    });
  };
  const of = typeof lines === "function" ? (scenario: Scenario) => check(lines(scenario)) : () => check(lines);
  if (typeof lines !== "function") check(lines);
  return {
    begin: (scenario) => of(scenario)[0],
    reply: ({ scenario, spoken }) => of(scenario)[spoken],
    describe: () => ({ kind: "scripted", lines: typeof lines === "function" ? fingerprint(lines) : lines }),
  };
}
