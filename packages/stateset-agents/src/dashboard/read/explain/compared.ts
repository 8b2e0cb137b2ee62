/** The conversations of a group as their algorithm saw them. */
import type { Sequence } from "../../../algorithm/algorithm.ts";
import { overlongPenalty } from "../../../algorithm/overlong.ts";
import { partFailuresOf } from "../../../conversation/part-failures.ts";
import { withTotal } from "../../../conversation/total.ts";
import { fingerprint } from "../../../describe.ts";
import type { Member } from "../group/member.ts";
import { type JsonObject, numberAt } from "../json-file.ts";
import { show } from "./why.ts";

export interface Compared {
  member: Member;
  sequence: Sequence;
}

/** Those that have a reward and were not lost. A conversation whose tokens were not kept stands for one token. */
export function comparedOf(members: readonly Member[]): Compared[] {
  return members.flatMap((member) => {
    const { reward: given } = member.record;
    if (!given || typeof given.score !== "number" || member.row.leftOut === "lost") return [];
    const reward = withTotal(given);
    const failed = partFailuresOf(reward.metadata).map(({ name }) => name);
    const sequence: Sequence = {
      group: 0,
      ...tokenNumbers(member),
      reward: reward.score,
      breakdown: reward.breakdown,
      ...(failed.length > 0 && { failedParts: failed }),
      turnRewards: reward.turns ?? {},
      turnsInReward: true,
      ...statesOf(member),
      truncated: false,
      ...(member.row.ended === "failed" && { failed: true }),
    };
    return [{ member, sequence }];
  });
}

function tokenNumbers({ tokens }: Member): Pick<Sequence, "old" | "turn" | "ref" | "oldValues"> {
  if (!tokens) return { old: new Float32Array(1), turn: new Int32Array(1) };
  const places = learnPlacesOf(tokens.learn, tokens.starts);
  const some = (numbers: ArrayLike<number>) => Float32Array.from(places, (place) => numbers[place]!);
  const { reference, value } = tokens.learnt;
  return {
    old: some(tokens.logprobs),
    turn: Int32Array.from(places, (place) => tokens.turn[place]!),
    ...(reference && { ref: some(reference) }),
    ...(value && { oldValues: some(value) }),
  };
}

/** The first token of a chain is never one. */
function learnPlacesOf(learn: Uint8Array, starts: readonly number[]): number[] {
  const first = new Set(starts);
  const places: number[] = [];
  for (let i = 0; i < learn.length; i++) if (learn[i] === 1 && !first.has(i)) places.push(i);
  return places;
}

/** As learning tells them (learning/sequence.ts): the state of the world before a reply, and what it answers. */
function statesOf({ record: { messages, turns = {} } }: Member): Pick<Sequence, "states"> {
  const states = messages.flatMap(({ role }, i): [number, string][] => {
    const before = messages[i - 1];
    const hash = turns[i - 1]?.metadata?.stateHash;
    if (role !== "assistant" || turns[i]?.given || !before || typeof hash !== "string") return [];
    return [[i, fingerprint([hash, before.role, before.content])]];
  });
  return states.length > 0 ? { states: Object.fromEntries(states) } : {};
}

/** What was recorded of its learn tokens; empty where nothing was. */
export function recordedAdvantage({ tokens }: Member): Float32Array {
  return tokens?.learnt.advantage?.filter((own) => !Number.isNaN(own)) ?? new Float32Array(0);
}

/** In place: what the run does to rewards before they are compared, as far as the group tells. Answers it in words. */
export function shapeRewards(compared: readonly Compared[], config: JsonObject): { lines: string[]; whole: boolean } {
  const settings = (config.settings as JsonObject | undefined)?.rewardShaping;
  const [low, high] = [numberAt(settings, "clipLow"), numberAt(settings, "clipHigh")];
  const algorithm = config.algorithm as JsonObject | undefined;
  const own = algorithm?.algorithm === "dapo" ? algorithm : settings;
  const [penalty, buffer] = [numberAt(own, "overlongPenalty") ?? 0, numberAt(own, "overlongBuffer") ?? 0.2];
  const limit =
    numberAt(config, "settings", "sampling", "maxTokens") ?? numberAt(config, "agent", "sampling", "maxTokens");
  const lines: string[] = [];
  const normalise = (settings as JsonObject | undefined)?.normalise;
  if (normalise === "batch" || normalise === "run") {
    lines.push(
      `Rewards are normalised by mean and spread of the ${normalise === "run" ? "run so far" : "whole batch"} first.`,
    );
    return { lines, whole: true };
  }
  for (const { member, sequence } of compared) {
    const before = sequence.reward;
    sequence.reward = Math.min(high ?? Infinity, Math.max(low ?? -Infinity, before));
    if (penalty > 0 && limit !== null && member.tokens) {
      sequence.shaping = penalty * overlongPenalty(sequence, limit, buffer);
      sequence.reward += sequence.shaping;
    }
    if (sequence.reward !== before)
      lines.push(
        `${member.record.id}: reward ${show(before)} counts as ${show(sequence.reward)} (${sequence.shaping ? "overlong reply" : "clipped"})`,
      );
  }
  return { lines, whole: false };
}
