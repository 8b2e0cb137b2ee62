/** One conversation, driven by somebody's own agent: it is run against the policy, and what it calls is recorded. */
import type { Agent } from "../agent/agent.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { type Failure, mistakeIn } from "../conversation/failure.ts";
import type { Ended, RewardResult } from "../conversation/trajectory.ts";
import { type GuardOptions, runTwice, timed } from "../environment/guard.ts";
import { hasCode, messageOf, StatesetError } from "../error.ts";
import { seedOf } from "../random.ts";
import type { Unrewarded } from "../rollout/episode.ts";
import type { Play, PlayRequest } from "../rollout/play.ts";
import type { RolloutSettings } from "../rollout/settings.ts";
import { Attempt } from "./attempt.ts";
import type { CaptureServer } from "./capture-server.ts";
import type { Harness } from "./harness.ts";
import { readReward, theReward } from "./harness-reward.ts";
import { ownCopy } from "./own-copy.ts";
import { overriddenText } from "./own-sampling.ts";

export interface HarnessPlay {
  agent: Agent;
  harness: Harness;
  settings: Pick<RolloutSettings, "maxTurns" | "constrain">;
  /** Whether a reward function scores the turns. */
  scored: boolean;
}

/** Plays with a server that is open until it is closed. */
export interface OpenHarness {
  play: Play;
  close(): Promise<void>;
}

export async function openHarness({ agent, harness, settings, scored }: HarnessPlay): Promise<OpenHarness> {
  if (!(agent instanceof MultiTurnAgent)) {
    throw new StatesetError("INVALID_OPTION", "A harness needs a MultiTurnAgent, whose policy it can call.");
  }
  if (settings.constrain) {
    throw new StatesetError("INVALID_OPTION", "`constrain` is for conversations with an environment.", {
      hint: "Set it on the agent, or let the client send `strict` tools.",
    });
  }
  const { openCaptureServer } = await import("./capture-server.ts");
  const server = await openCaptureServer(agent);
  const play: Play = async (request, signal) => {
    const { scenario, id } = request;
    const guard = { timeoutMs: harness.timeoutMs, signal, scenarioId: scenario.id, trajectoryId: id };
    let attempt: Attempt;
    const asked = new Set<string>();
    const { value, failures } = await runTwice(async (number) => {
      attempt = attemptOf(request, { number, agent, harness, settings });
      try {
        return await runOnce(attempt, { request, guard, server, harness, scored });
      } finally {
        for (const field of attempt.overridden) asked.add(field);
      }
    });
    const failure = value === undefined ? failures.at(-1) : value.failure;
    // Those of rewards are counted where rewards are.
    if (value?.failure && value.failure.during !== "reward") failures.push(value.failure);
    return {
      trajectory: trajectoryOf(attempt!, request, { failure, temperature: samplingOf(agent, request).temperature }),
      ...(value?.reward && { reward: value.reward }),
      failures,
      notices: asked.size > 0 ? [overriddenText([...asked].sort())] : [],
    };
  };
  return { play, close: () => server.close() };
}

interface Outcome {
  reward?: RewardResult | undefined;
  /** Of the agent's hooks or of the reward, which would fail the same way again. */
  failure?: Failure;
}

async function runOnce(
  attempt: Attempt,
  {
    request,
    guard,
    server,
    harness,
    scored,
  }: { request: PlayRequest; guard: GuardOptions; server: CaptureServer; harness: Harness; scored: boolean },
): Promise<Outcome> {
  const { scenario, seed } = request;
  const { end, ...access } = server.admit(attempt);
  // An agent that writes into its scenario writes into no other's.
  const own = { ...access, model: server.model, scenario: ownCopy(scenario), seed: seedOf(seed, "harness") };
  const run = async (signal: AbortSignal) => {
    try {
      return await harness.run({ ...own, signal });
    } catch (error) {
      // What ended the conversation ends it here too, where somebody scores it as it stands.
      if (attempt.limit && scored) return undefined;
      throw error;
    }
  };
  let returned: unknown;
  try {
    returned = await timed("harness", guard, async (signal) => {
      const given = await run(signal);
      if (attempt.calls.answered === 0 && !attempt.fault) throw new Error(unanswered(attempt));
      return given;
    });
  } catch (error) {
    if (!attempt.fault) throw error;
  } finally {
    await end();
  }
  if (attempt.fault) return faultOf(attempt.fault.error, request);
  const read = readOrFail(returned, request);
  if ("failure" in read) return read;
  return { reward: theReward({ returned: read.returned, posted: attempt.posted, scored }) };
}

/** A reward that is none costs the conversation, as any reward that fails does. */
function readOrFail(returned: unknown, { id, scenario }: PlayRequest) {
  try {
    return { returned: readReward(returned) };
  } catch (error) {
    const kind = typeof returned === "number" ? "not-finite" : "threw";
    const of = { scenarioId: scenario.id, trajectoryId: id, message: messageOf(error) };
    return { failure: { kind, during: "reward", ...of } satisfies Failure };
  }
}

function unanswered({ refused, calls: { broken } }: Attempt): string {
  if (refused !== undefined) return `none of its calls was answered; the last was refused: ${refused}`;
  if (broken > 0) return `it waited for none of its ${broken} calls to be answered`;
  return "it made no call of the model: its client needs the baseURL and apiKey that run() is given";
}

/** Hooks of the agent cost the conversation; an engine that fails costs the run. */
function faultOf(error: unknown, { id, scenario }: PlayRequest): Outcome {
  if (!hasCode(error, "HOOK_FAILED")) throw error;
  const mistake = mistakeIn(error);
  const of = { scenarioId: scenario.id, trajectoryId: id, message: messageOf(error) };
  return { failure: { kind: "threw", during: "hook", ...of, ...(mistake !== undefined && { mistake }) } };
}

function samplingOf(agent: Agent, { sampling: { temperature, maxTokens } }: PlayRequest) {
  const own = { ...(temperature !== undefined && { temperature }), ...(maxTokens !== undefined && { maxTokens }) };
  return { ...agent.sampling, ...own };
}

function attemptOf(
  request: PlayRequest,
  { number, agent, harness, settings }: Pick<HarnessPlay, "agent" | "harness" | "settings"> & { number: number },
): Attempt {
  const { id, scenario, seed, member, learn, keepActivations, onReply } = request;
  return new Attempt({
    ...{
      scenarioId: scenario.id,
      trajectoryId: id,
      attempt: number,
      learn,
      keepActivations,
      onReply,
      onCall: harness.onCall,
    },
    seed: seedOf(seed, "member", member),
    sampling: samplingOf(agent, request),
    maxTurns: settings.maxTurns,
  });
}

function trajectoryOf(
  attempt: Attempt,
  { id, scenario }: PlayRequest,
  { failure, temperature }: { failure: Failure | undefined; temperature: number },
): Unrewarded {
  const { turns, chains, repeated } = attempt.conversations();
  const cut = turns.at(-1)?.sampled?.finishReason === "length";
  const failed = failure && failure.during !== "reward";
  const ended: Ended = failed ? "failed" : (attempt.limit ?? (cut ? "max-tokens" : "done"));
  const { answered, broken } = attempt.calls;
  return {
    ...{ id, scenarioId: scenario.id, turns, chains, ended, ...(failure && { failure }) },
    versions: [...new Set(chains.flatMap(({ versions = {} }) => Object.values(versions)))],
    ...{ temperature, stub: attempt.stub },
    metadata: { harness: { attempt: attempt.number, calls: answered, repeated, broken } },
  };
}
