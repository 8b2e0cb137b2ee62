/**
 * Which tokens an algorithm's clip holds back, from the ratios and advantages that were recorded: the losses in algorithm/loss/ again, one
 * token at a time. Sequence-level ratios (GSPO, LUSPO, GEPO, RLOO) clip all tokens of a conversation, or none.
 */
import { surrogate } from "../../../algorithm/loss/surrogate.ts";
import { isObject, type JsonObject, numberAt } from "../json-file.ts";

/** Numbers of the learn tokens of one conversation; NaN where nothing was learnt. */
export interface LearntColumns {
  ratio: Float32Array;
  advantage: Float32Array;
  /** What GEPO's group adds to the logarithm of a sequence's ratio (group/member.ts). */
  shift?: number | undefined;
}

const byToken = new Set(["grpo", "dr-grpo", "bnpo", "dapo", "ppo", "vapo", "reinforce++"]);

/** Between which ratios a token moves freely, where ratios are clipped one by one. */
export function boundsOf(algorithm: unknown): { low: number | null; high: number | null } | null {
  if (!isObject(algorithm)) return null;
  const { low, high } = epsilons(algorithm);
  switch (algorithm.algorithm) {
    case "cispo":
      return { low: null, high: numberAt(algorithm, "ratioCap") };
    case "gmpo":
      return low === null || high === null ? null : { low: Math.exp(-low), high: Math.exp(high) };
    default:
      if (!byToken.has(algorithm.algorithm as string) || low === null || high === null) return null;
      return { low: 1 - low, high: 1 + high };
  }
}

/** 1 where a token is clipped; undefined where the algorithm clips nothing, or what it clips by was not recorded. */
export function clippedTokens(algorithm: unknown, columns: LearntColumns): Uint8Array<ArrayBuffer> | undefined {
  if (!isObject(algorithm)) return undefined;
  const { ratio, advantage } = columns;
  const test = clipTest(algorithm, columns);
  if (!test) return undefined;
  return Uint8Array.from(ratio, (own, t) =>
    Number.isNaN(own) || Number.isNaN(advantage[t]) ? 0 : Number(test(own, advantage[t]!)),
  );
}

type ClipTest = (ratio: number, advantage: number) => boolean;

function clipTest(algorithm: JsonObject, columns: LearntColumns): ClipTest | undefined {
  const name = algorithm.algorithm as string;
  const { low, high } = epsilons(algorithm);
  if (name === "cispo") {
    const cap = numberAt(algorithm, "ratioCap");
    return cap === null ? undefined : (ratio) => ratio > cap;
  }
  if (name === "rloo") {
    if (low === null && high === null) return undefined;
    const clip = { epsilonLow: low ?? 1, epsilonHigh: high ?? Number.POSITIVE_INFINITY };
    return wholeSequence(columns, clip, (logs) => logs.sum);
  }
  if (low === null || high === null) return undefined;
  const clip = { epsilonLow: low, epsilonHigh: high, dualClip: numberAt(algorithm, "dualClip") };
  if (byToken.has(name)) return (ratio, advantage) => surrogate(Math.log(ratio), advantage, clip).clipped;
  if (name === "gspo" || name === "luspo") return wholeSequence(columns, clip, (logs) => logs.mean);
  if (name === "gepo") {
    const { shift } = columns;
    return shift === undefined ? undefined : wholeSequence(columns, clip, (logs) => logs.mean + shift);
  }
  if (name === "gspo-token") {
    const { mean } = logsOf(columns.ratio);
    return (_, advantage) => surrogate(mean, advantage, clip).clipped;
  }
  if (name === "gmpo") {
    const advantage = meanOf(columns.advantage);
    return (ratio) => (advantage > 0 ? Math.log(ratio) > high : advantage < 0 && Math.log(ratio) < -low);
  }
  return undefined;
}

/** One ratio and one advantage for all of a conversation's tokens. */
function wholeSequence(
  { ratio, advantage }: LearntColumns,
  clip: Parameters<typeof surrogate>[2],
  logRatio: (logs: { sum: number; mean: number }) => number,
): ClipTest {
  const { clipped } = surrogate(logRatio(logsOf(ratio)), meanOf(advantage), clip);
  return () => clipped;
}

function logsOf(ratio: Float32Array): { sum: number; mean: number } {
  let [sum, count] = [0, 0];
  for (const own of ratio) {
    if (Number.isNaN(own)) continue;
    sum += Math.log(own);
    count++;
  }
  return { sum, mean: count === 0 ? 0 : sum / count };
}

function meanOf(numbers: Float32Array): number {
  let [sum, count] = [0, 0];
  for (const own of numbers) {
    if (Number.isNaN(own)) continue;
    sum += own;
    count++;
  }
  return count === 0 ? 0 : sum / count;
}

function epsilons(algorithm: JsonObject): { low: number | null; high: number | null } {
  return { low: numberAt(algorithm, "epsilonLow"), high: numberAt(algorithm, "epsilonHigh") };
}
