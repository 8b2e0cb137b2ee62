/** What one run of the benchmark found, in results/grpo.json by kind of machine. */
import type { Roofline } from "../machine.ts";
import type { MachineRecord } from "../results.ts";

export interface Timed {
  /** Seconds of each step, the first (warm-up) left out. */
  seconds: number[];
  median: number;
  /** Processor seconds of the middle step: what is left of the comparison when other work shares the machine. */
  cpu: number;
  meanTokens: number;
  /** Of which sampling, seconds of the median step. */
  rollout?: number;
  update?: number;
}

export interface GrpoRecord extends MachineRecord {
  roofline?: Roofline;
  replyTokens: number;
  groupSize: number;
  results: Record<
    string,
    { ours: Timed; trl?: Timed; ratio?: number; promptTokens: { total: number; distinct: number } }
  >;
  bySize: { group: number; seconds: number; distinctTokens: number; allTokens: number }[];
}

/** TRL's time over ours, by the clock and in processor seconds. */
export function ratiosOf({ results }: Pick<GrpoRecord, "results">): Record<string, number> {
  const named = Object.entries(results).flatMap(([name, { ours, trl }]): [string, number][] =>
    trl
      ? [
          [name, trl.median / ours.median],
          [`${name}, processor seconds`, trl.cpu / ours.cpu],
        ]
      : [],
  );
  return Object.fromEntries(named);
}
