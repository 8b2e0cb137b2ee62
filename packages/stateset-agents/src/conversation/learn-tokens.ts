import type { TokenChain } from "./trajectory.ts";

type Marked = Pick<TokenChain, "learn">;

/** Where the learn tokens of a chain are. The first token has no context to be predicted from and never is one. */
export function learnPlaces({ learn }: Marked): number[] {
  const places: number[] = [];
  for (let i = 1; i < learn.length; i++) if (learn[i] === 1) places.push(i);
  return places;
}

/** How many learn tokens a chain has. */
export function learnCount({ learn }: Marked): number {
  let count = 0;
  for (let i = 1; i < learn.length; i++) if (learn[i] === 1) count++;
  return count;
}
