import type { Agent } from "../agent/agent.ts";
import type { Environment } from "../environment/environment.ts";
import type { Scenario } from "../environment/scenario.ts";
import { type Play, playInEnvironment } from "../rollout/play.ts";
import type { Rollout } from "../rollout/rollout.ts";
import type { Harness } from "./harness.ts";
import { openHarness } from "./play-with-harness.ts";

/** Who drives conversations: one of the two. */
export interface Driver {
  environment?: Environment | undefined;
  harness?: Harness | undefined;
}

export function scenariosOf({ environment, harness }: Driver): readonly Scenario[] {
  return (environment ?? harness)?.scenarios ?? [];
}

export interface OpenRollout {
  rollout: Rollout;
  close(): Promise<void>;
}

/** Conversations as they are driven. `play`: one that is open already, and is somebody else's to close. */
export async function openRollout(
  { environment, harness, ...rest }: Driver & Omit<Rollout, "play" | "judged"> & { agent: Agent },
  play?: Play,
): Promise<OpenRollout> {
  const { agent, settings, reward } = rest;
  const judged = harness !== undefined;
  const nothing = async () => {};
  if (play) return { rollout: { ...rest, judged, play }, close: nothing };
  if (environment) {
    return { rollout: { ...rest, play: playInEnvironment({ agent, environment, settings }) }, close: nothing };
  }
  const opened = await openHarness({ agent, harness: harness!, settings, scored: reward !== undefined });
  return { rollout: { ...rest, judged, play: opened.play }, close: opened.close };
}
