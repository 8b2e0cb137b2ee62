import { StatesetError } from "../error.ts";

const parts: Record<string, [is: (value: object) => boolean, what: string]> = {
  agent: [(value) => "startConversation" in value, "an Agent"],
  environment: [(value) => "scenarios" in value && "reset" in value, "an Environment"],
  harness: [(value) => "run" in value && "describe" in value, "a harness (defineHarness() makes one)"],
  reward: [(value) => "compute" in value, "a RewardFunction (rewardFunction() makes one of a function)"],
  signal: [(value) => value instanceof AbortSignal, "an AbortSignal"],
};

/** Refuses what was forgotten or mistaken among the parts of a call before anything is done with them. */
export function requireParts(given: Readonly<Record<string, unknown>>, where: string): void {
  if (given.environment !== undefined && given.harness !== undefined) {
    throw new StatesetError("INVALID_OPTION", `${where} got an environment and a harness, and both would drive.`, {
      hint: "Give one of them.",
    });
  }
  for (const [name, [is, what]] of Object.entries(parts)) {
    const value = given[name];
    const needed = name === "agent" || (name === "environment" && given.harness === undefined);
    if (value === undefined && !needed) continue;
    const or = name === "environment" ? ' or "harness"' : "";
    if (value === undefined) throw new StatesetError("INVALID_OPTION", `${where} needs the option "${name}"${or}.`);
    if (typeof value === "object" && value !== null && is(value)) continue;
    throw new StatesetError("INVALID_OPTION", `The option "${name}" of ${where} is not ${what}.`);
  }
}
