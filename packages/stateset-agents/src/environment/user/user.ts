/** Who talks to the agent. A user keeps nothing between calls: all it knows is the conversation, so hundreds can run at once. */
import { z } from "zod";
import { isAbort } from "../../abort.ts";
import type { Turn } from "../../conversation/trajectory.ts";
import { describeClass } from "../../describe.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { seedOf } from "../../random.ts";
import type { EnvironmentState } from "../environment.ts";
import type { Scenario } from "../scenario.ts";

export interface UserOptions {
  /** What is random in what is said comes from this. */
  seed: number;
  signal?: AbortSignal | undefined;
}

/** What a user knows of the conversation: calls and their results are not for its eyes. */
export interface UserView {
  scenario: Scenario;
  /** Words alone, of the user and the agent; the last is the agent's, and may be empty. */
  turns: readonly Turn[];
  /** How often it has spoken itself: what the scenario says does not count. */
  spoken: number;
}

type Words = string | undefined;

export interface User {
  /** What it says first, where the scenario does not say it. */
  begin(scenario: Scenario, options: UserOptions): Words | Promise<Words>;
  /** What it says to the agent's last words; undefined: it hangs up. */
  reply(view: UserView, options: UserOptions): Words | Promise<Words>;
  /** What it is, for config.json. */
  describe?(): Record<string, unknown>;
}

const has = (value: unknown, name: "begin" | "reply") => typeof (value as User | null)?.[name] === "function";
export const userSchema = z.custom<User>(
  (value) => has(value, "begin") && has(value, "reply"),
  "a user was expected, such as scriptedUser([…]) or { begin, reply }",
);

export function describeUser(user: User): Record<string, unknown> {
  return user.describe?.() ?? describeClass(user);
}

/** Same conversation, same seed: same words. */
export async function firstWords(
  user: User,
  scenario: Scenario,
  seed: number,
  signal: AbortSignal | undefined,
): Promise<string> {
  const said = await asked(scenario, signal, () => user.begin(scenario, { seed: seedOf(seed, "user", 0), signal }));
  if (said !== undefined) return said;
  throw new StatesetError("INVALID_SCENARIO", `Nobody says the first words of scenario "${scenario.id}".`, {
    hint: "Give it a prompt, or a user whose begin() says something.",
  });
}

export interface Exchange extends Pick<EnvironmentState, "scenario" | "seed"> {
  /** With the agent's reply. */
  turns: readonly Turn[];
  /** Whether the scenario's own words were the first of the user. */
  opened: boolean;
}

/** Undefined: it hangs up. */
export async function nextWords(
  user: User,
  { scenario, seed, turns, opened }: Exchange,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const spoken = turns.filter(({ role, given }) => role === "user" && !given).length - (opened ? 1 : 0);
  const view = { scenario, turns: turns.flatMap(wordsOf), spoken };
  return asked(scenario, signal, () => user.reply(view, { seed: seedOf(seed, "user", view.turns.length), signal }));
}

function wordsOf({ role, content, tool_calls, given }: Turn): Turn[] {
  if (role !== "user" && (role !== "assistant" || (tool_calls && content.trim() === ""))) return [];
  return [{ role, content, ...(given && { given }) }];
}

async function asked(
  scenario: Scenario,
  signal: AbortSignal | undefined,
  ask: () => Words | Promise<Words>,
): Promise<Words> {
  const fail = (what: string, cause?: unknown) =>
    new StatesetError(
      "USER_FAILED",
      `The user of scenario "${scenario.id}" ${/[.?!]$/.test(what) ? what : `${what}.`}`,
      {
        hint: "A user says something, or returns undefined to hang up.",
        cause,
      },
    );
  let said: unknown;
  try {
    said = await ask();
  } catch (error) {
    if (isAbort(error) && signal?.aborted) throw error;
    throw fail(`failed: ${messageOf(error)}`, error);
  }
  if (said === undefined) return undefined;
  if (typeof said !== "string") throw fail(`said what is no text: ${typeof said}`);
  if (said.trim() === "") throw fail("said nothing");
  return said;
}
