/** What is known of the calls of a turn beside what they say, in its metadata. */
import type { Message } from "./message.ts";
import type { Turn } from "./trajectory.ts";

/** Why calls of a turn cannot be read, by their ids. */
export type UnreadableCalls = Readonly<Record<string, string>>;

export function unreadableCalls({ metadata }: Message & Pick<Turn, "metadata">): UnreadableCalls {
  return (metadata?.unreadableCalls as UnreadableCalls | undefined) ?? {};
}

/** Calls that the agent answers itself, by their ids: the environment leaves them alone. */
export function callsOfAgent({ metadata }: Turn): readonly string[] {
  return (metadata?.callsOfAgent as readonly string[] | undefined) ?? [];
}

export function withCallsOfAgent(turn: Turn, callsOfAgent: readonly string[]): Turn {
  return callsOfAgent.length === 0 ? turn : { ...turn, metadata: { ...turn.metadata, callsOfAgent } };
}
