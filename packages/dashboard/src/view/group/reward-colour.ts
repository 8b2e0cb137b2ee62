/** A reward's colour among those of its group: orange above the mean, blue below it. */
import { buckets, className, middle } from "../../token/colours.ts";
import { type Member, meanReward } from "./members.ts";

export function rewardColour(members: readonly Member[]): (reward: number | null) => string {
  const mean = meanReward(members, [...members.keys()]) ?? 0;
  const far = Math.max(...members.map(({ reward }) => Math.abs((reward ?? mean) - mean)), 1e-9);
  return (reward) => {
    if (reward === null) return "still";
    const along = Math.max(-1, Math.min(1, (reward - mean) / far));
    return className("signed", Math.min(buckets - 1, Math.max(0, Math.round(middle + along * middle))));
  };
}
