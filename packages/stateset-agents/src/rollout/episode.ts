import type { ConversationSession } from "../agent/session.ts";
import type { Ended, Trajectory, Turn } from "../conversation/trajectory.ts";
import type { EnvironmentState } from "../environment/environment.ts";
import type { Scenario } from "../environment/scenario.ts";

/** A conversation before anybody has rewarded it. */
export type Unrewarded = Omit<Trajectory, "reward">;

/** What has happened so far in a conversation. */
export interface Episode {
  session: ConversationSession;
  state: EnvironmentState | undefined;
  ended: Ended | undefined;
  /** A reply that the environment has not answered yet. */
  unanswered: Turn | undefined;
  /** By turn: what was sampled, and the environment's reward for it. */
  notes: Map<number, Pick<Turn, "sampled" | "reward">>;
}

/** A conversation as far as it got. */
export function trajectoryOf(id: string, scenario: Scenario, episode: Episode): Unrewarded {
  const { session, state, ended, unanswered, notes } = episode;
  const chains = session.chains();
  const turns = [...(state?.turns ?? []), ...(unanswered ? [unanswered] : [])];
  return {
    id,
    scenarioId: scenario.id,
    // The environment may have built its turns anew; what is known of a reply is known by its place.
    turns: turns.map((turn, index) => ({ ...turn, ...notes.get(index) })),
    chains,
    ended: ended ?? state?.ended ?? "done",
    versions: [...new Set(chains.flatMap(({ versions = {} }) => Object.values(versions)))],
    temperature: session.temperature,
    stub: session.stub,
    metadata: { ...state?.metadata },
  };
}

/** What the environment's tools answered, at the length that the agent would cut its own tools' results to. `from`: the first turn that may be one. */
export function withCutResults<S extends EnvironmentState>(state: S, from: number, session: ConversationSession): S {
  let changed = false;
  const turns = state.turns.map((turn, i) => {
    const content =
      i < from || turn.role !== "tool" ? turn.content : (session.cutResult?.(turn.content) ?? turn.content);
    if (content === turn.content) return turn;
    changed = true;
    return { ...turn, content };
  });
  return changed ? { ...state, turns } : state;
}
