/** What the runs are taught: small rewards that code checks. Those that can be gamed say so in their names. */
import {
  CompositeReward,
  ConcisenessReward,
  HelpfulnessReward,
  PolitenessReward,
  type RewardFunction,
  rewardFunction,
} from "stateset-agents";

export const words = (text: string) => text.match(/[\p{L}\p{N}']+/gu) ?? [];
const clamp = (value: number) => Math.max(0, Math.min(1, value));

/** The mean over replies of what one reply is worth; `before` is what the user said. */
export function perReply(
  name: string,
  worth: (text: string, before: string, reply: number) => number,
  weight = 1,
): RewardFunction {
  return rewardFunction({ name, weight }, ({ turns }) => {
    const of = turns.flatMap((turn, i) =>
      turn.role === "assistant" ? [{ text: turn.content, before: turns[i - 1]?.content ?? "" }] : [],
    );
    return of.reduce((sum, { text, before }, i) => sum + worth(text, before, i), 0) / Math.max(1, of.length);
  });
}

/** Half for what is asked, half for at most `most` words, fading to nothing at three times as many. An empty reply is worth nothing. */
export function within(most: number, asked: (text: string, before: string, reply: number) => boolean) {
  return (text: string, before: string, reply: number) => {
    const count = words(text).length;
    if (count === 0) return 0;
    return 0.5 * Number(asked(text, before, reply)) + 0.5 * clamp((3 * most - count) / (2 * most));
  };
}

/** 1 for exactly the right call, half for one of the right tool. */
export const rightCall: RewardFunction = rewardFunction({ name: "right-call" }, ({ turns, scenario }) => {
  const call = /^<tool_call>\s*(.*?)\s*<\/tool_call>/s.exec(turns.at(-1)!.content)?.[1];
  if (call === undefined) return 0;
  const wanted = scenario?.expected ?? "";
  if (call.replace(/\s/g, "") === wanted) return 1;
  return call.replace(/\s/g, "").startsWith(wanted.slice(0, wanted.indexOf(","))) ? 0.5 : 0;
});

/** What a run that games its reward loses, and training does not see. */
export const quality = (): RewardFunction =>
  new CompositeReward([new PolitenessReward(), new ConcisenessReward(), new HelpfulnessReward()]);

/** Matches in a reply, `most` at most: nothing says that they must make sense. */
export const counting = (name: string, what: RegExp, most: number) =>
  perReply(name, (text) => Math.min(most, text.toLowerCase().match(what)?.length ?? 0) / most);
