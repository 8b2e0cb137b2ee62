import { totalOf } from "../conversation/total.ts";
import type { RewardResult, Turn } from "../conversation/trajectory.ts";
import { messageOf, StatesetError } from "../error.ts";
import { checkResult } from "./define-reward.ts";
import type { PartNote, RewardContext, RewardFunction, RewardInput } from "./reward-function.ts";

/** Why a reward says what it says of a conversation; printed, it is a few lines of text. */
export interface Explanation {
  name: string;
  /** The total; undefined where it failed and nothing stands in for it. */
  score: number | undefined;
  /** What it adds to the score of what it is part of, where that is a sum. */
  share?: number;
  /** Why there is no score, or a score that stands in for it. */
  failure?: string;
  /** What single turns were given, on the scale of the score. */
  turns: readonly ExplainedTurn[];
  /** In the reward's own words: a judge's reason, the faults of calls, what a check found. */
  why: readonly string[];
  /** Numbers of its breakdown beside the score and those of its parts. */
  details: Readonly<Record<string, number>>;
  parts: readonly Explanation[];
  toString(): string;
}

export interface ExplainedTurn {
  /** Index in the conversation's turns. */
  turn: number;
  score: number;
  role: Turn["role"];
  /** How it begins, its calls included. */
  said: string;
}

/**
 * Scores a conversation and says who gave what, for which turn, and why. A reward that needs its scenario wants it beside the trajectory:
 * `explain(reward, { ...trajectory, scenario })`. What fails is explained too, and not thrown.
 *
 * @example
 * console.log(String(await explain(reward, trajectory)));
 */
export async function explain(
  reward: RewardFunction,
  conversation: RewardInput,
  context: Omit<RewardContext, "onPart"> = {},
): Promise<Explanation> {
  requireBoth(reward, conversation);
  const parts: PartNote[] = [];
  const onPart = (part: PartNote) => void parts.push(part);
  const { name } = reward;
  try {
    const result = checkResult(name, conversation, await reward.compute(conversation, { ...context, onPart }));
    return explanation({ name, result, parts }, conversation.turns);
  } catch (error) {
    if (context.signal?.aborted) throw error;
    return explanation({ name, failure: messageOf(error), parts }, conversation.turns);
  }
}

function requireBoth(reward: Partial<RewardFunction> | undefined, conversation: Partial<RewardInput> | undefined) {
  const isReward = typeof reward?.compute === "function";
  if (isReward && Array.isArray(conversation?.turns)) return;
  throw new StatesetError("INVALID_OPTION", `explain() got no ${isReward ? "conversation" : "reward"}.`, {
    hint: "Give both: explain(reward, trajectory). rewardFunction() makes a reward of a function.",
  });
}

function explanation({ name, result, share, failure, parts }: PartNote, said: readonly Turn[]): Explanation {
  const own = (key: string) =>
    key !== name && !parts.some((part) => key === part.name || key.startsWith(`${part.name}.`));
  const facts: Explanation = {
    name,
    score: result && totalOf(result),
    ...(share !== undefined && { share }),
    ...(failure !== undefined && { failure }),
    turns: Object.entries(result?.turns ?? {}).map(([turn, score]) => {
      const { role } = said[Number(turn)]!;
      return { turn: Number(turn), score, role, said: beginning(said[Number(turn)]!) };
    }),
    why: reasonsIn(result?.metadata),
    details: Object.fromEntries(Object.entries(result?.breakdown ?? {}).filter(([key]) => own(key))),
    parts: parts.map((part) => explanation(part, said)),
  };
  // Beside the data: for String() and templates, in no copy and no JSON.
  return Object.defineProperty(facts, "toString", { value: () => printed(facts).join("\n") });
}

function beginning({ content, tool_calls = [] }: Turn): string {
  const calls = tool_calls.map(({ function: { name, arguments: given } }) => `${name}(${given})`);
  const text = [content, ...calls].filter((one) => one !== "").join(" ");
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

/** What rewards note of their reasons: `reasons` with the turn each is of, a judge's `reason`, `problems` of calls, `flags` of safety. */
function reasonsIn(metadata: RewardResult["metadata"] = {}): string[] {
  const list = (value: unknown) => (Array.isArray(value) ? (value as unknown[]) : []);
  return [
    ...list(metadata.reasons).map((one) => {
      const { turn, why } = one as { turn?: number; why: string };
      return turn === undefined ? why : `turn ${turn}: ${why}`;
    }),
    ...[metadata.reason, ...list(metadata.problems)].filter((one) => typeof one === "string"),
    ...list(metadata.flags).map((flag) => `flagged: ${String(flag)}`),
    ...list(metadata.unfluent).map((turn) => `turn ${String(turn)}: no language to the reference model`),
  ];
}

function printed({ name, score, share, failure, turns, why, details, parts }: Explanation): string[] {
  const head = [
    `${name}: ${score === undefined ? "no score" : number(score)}`,
    ...(share === undefined ? [] : [`adds ${number(share)}`]),
    ...Object.entries(details).map(([key, value]) => `${key} ${number(value)}`),
  ].join(", ");
  const below = [
    ...(failure === undefined ? [] : [`failed: ${failure}`]),
    ...turns.map(({ turn, score: own, role, said }) => `turn ${turn} (${role}): ${number(own)} ${said}`),
    ...why,
    ...parts.flatMap(printed),
  ];
  return [head, ...below.map((line) => `  ${line}`)];
}

function number(value: number): string {
  return String(Number(value.toFixed(3)));
}
