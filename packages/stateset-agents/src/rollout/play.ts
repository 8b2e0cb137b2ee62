/**
 * One conversation, driven by an environment: reset, reply, step, reply, … until it ends.
 * It depends on its seed, the weights and the scenario alone: not on which others run beside it, nor on their order.
 */
import type { Agent } from "../agent/agent.ts";
import type { ConversationSession, Reply } from "../agent/session.ts";
import { type Failure, isAnswer, mistakeIn } from "../conversation/failure.ts";
import type { ToolDefinition } from "../conversation/tool-definition.ts";
import type { Ended, RewardResult } from "../conversation/trajectory.ts";
import type { Environment } from "../environment/environment.ts";
import { type GuardedEnvironment, runGuarded } from "../environment/guard.ts";
import type { Scenario } from "../environment/scenario.ts";
import { hasCode, messageOf } from "../error.ts";
import { seedOf } from "../random.ts";
import { type Episode, trajectoryOf, type Unrewarded, withCutResults } from "./episode.ts";
import type { RolloutSettings } from "./settings.ts";

/** One conversation to be played. */
export interface PlayRequest {
  /** The trajectory's id. */
  id: string;
  scenario: Scenario;
  /** Of the group: its members meet the same world, and differ by what the policy says. */
  seed: number;
  member: number;
  sampling: RolloutSettings["sampling"] & Pick<RolloutSettings, "constrain">;
  /** False: tokens are recorded, not marked for learning. */
  learn: boolean;
  /** The engine keeps what it computes, for the update that comes next. */
  keepActivations?: boolean | undefined;
  /** Told of every reply, with the tokens that were sampled for it. */
  onReply?: ((tokens: number) => void) | undefined;
}

export interface Played {
  /** `ended` is "failed" when the environment or a hook failed; it then holds what was said until then. */
  trajectory: Unrewarded;
  /** Where whoever drove it has judged it already. */
  reward?: RewardResult;
  /** One a failed attempt. */
  failures: Failure[];
  notices?: readonly string[]; // what it asked for and did not get
}

/** Who drives a conversation. */
export type Play = (request: PlayRequest, signal: AbortSignal | undefined) => Promise<Played>;

export interface EnvironmentPlay {
  agent: Agent;
  environment: Environment;
  settings: RolloutSettings;
}

/**
 * An environment that fails before the first reply, or hangs, costs one retry with other draws; when that fails too, the conversation has
 * failed. One that throws at a reply has failed at once: drawn anew until it passes, the reply would never be seen to be a bad one.
 */
export function playInEnvironment({ agent, environment, settings }: EnvironmentPlay): Play {
  return async (request, signal) => {
    const { scenario, id, learn, keepActivations = false, sampling } = request;
    let episode: Episode;
    const begin = (environmentTools: readonly ToolDefinition[] = []) =>
      agent.startConversation({
        ...{ scenario, learn, keepActivations },
        ...sampling,
        ...(environmentTools.length > 0 && { environmentTools }),
      });
    const { value, failures } = await runGuarded(
      environment,
      async (guarded, attempt) => {
        episode = { session: begin(), state: undefined, ended: undefined, unanswered: undefined, notes: new Map() };
        return converse(guarded, episode, request, { attempt, maxTurns: settings.maxTurns, signal, begin });
      },
      {
        timeoutMs: settings.timeouts.environmentMs,
        signal,
        scenarioId: scenario.id,
        trajectoryId: id,
        // Nor is a check asked about other replies until it has a verdict.
        retry: (failure) => !isAnswer(failure) && failure.during !== "check",
      },
    );
    if (value?.failure) failures.push(value.failure);
    const trajectory = trajectoryOf(id, scenario, episode!);
    const failed = value === undefined || value.failure !== undefined;
    return {
      trajectory: failed ? { ...trajectory, ended: "failed", failure: failures.at(-1)! } : trajectory,
      failures,
    };
  };
}

interface ConverseOptions {
  attempt: number;
  maxTurns: number;
  signal: AbortSignal | undefined;
  begin: (environmentTools: readonly ToolDefinition[]) => ConversationSession;
}

async function converse(
  environment: GuardedEnvironment,
  episode: Episode,
  { id, scenario, seed, member, onReply }: PlayRequest,
  { attempt, maxTurns, signal, begin }: ConverseOptions,
): Promise<{ failure?: Failure }> {
  const anew = attempt === 0 ? [] : ["attempt", attempt];
  let state = await environment.reset(scenario, { seed: seedOf(seed, "environment", ...anew) });
  episode.state = state;
  const tools = environment.tools(state);
  if (tools) episode.session = begin(tools);
  while (!state.done && episode.ended === undefined) {
    const turn = state.turns.length;
    let reply: Reply;
    try {
      const own = seedOf(seed, "member", member, "turn", turn, ...anew);
      reply = await episode.session.reply(state.turns, { seed: own, ...(signal && { signal }) });
    } catch (error) {
      if (!hasCode(error, "HOOK_FAILED")) throw error;
      // The agent would fail the same way again.
      const message = messageOf(error);
      const mistake = mistakeIn(error);
      const of = { scenarioId: scenario.id, trajectoryId: id, message, ...(mistake !== undefined && { mistake }) };
      return { failure: { kind: "threw", during: "hook", ...of } };
    }
    for (const [i, { sampled }] of reply.turns.entries()) episode.notes.set(turn + i, sampled ? { sampled } : {});
    // The environment finds the calls and results of a reply in what was said already.
    const inner = reply.kind === "reply" ? reply.turns.slice(0, -1) : reply.turns;
    if (inner.length > 0) episode.state = state = { ...state, turns: [...state.turns, ...inner] };
    if (reply.kind === "context-full") {
      episode.ended = "context-full";
      break;
    }
    onReply?.(reply.sampledTokens);
    episode.unanswered = reply.turn;
    const { state: next, reward } = await environment.step(state, reply.turn);
    episode.unanswered = undefined;
    if (reward !== undefined) episode.notes.get(turn + inner.length)!.reward = reward;
    episode.state = state = withCutResults(next, turn + reply.turns.length, episode.session);
    const over: Ended | undefined = state.done
      ? (state.ended ?? "done")
      : state.replies >= maxTurns
        ? "max-turns"
        : undefined;
    if (over) episode.ended = reply.finishReason === "length" ? "max-tokens" : over;
  }
  return {};
}
