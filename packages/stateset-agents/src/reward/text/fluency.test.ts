import { expect, it } from "vitest";
import type { Turn } from "../../conversation/trajectory.ts";
import type { ScoreTurns, TurnScore } from "../reward-function.ts";
import { fluencyOf } from "./fluency.ts";

/** Knows capital letters and full stops; remembers what it has scored, as the scorer of a run does. */
function rememberingScorer(likely: number): { score: ScoreTurns; asked: () => number } {
  const known = new Map<readonly Turn[], TurnScore[]>();
  let asked = 0;
  const score: ScoreTurns = async (turns) => {
    asked++;
    const sentence = /^[A-Z].*[.?!]$/.test(turns.at(-1)!.content);
    const scores = known.get(turns) ?? [
      { turn: 1, logprobs: new Float32Array(10).fill(sentence ? likely : likely - 4) },
    ];
    known.set(turns, scores);
    return scores;
  };
  return { score, asked: () => asked };
}

const said = (reply: string): Turn[] => [
  { role: "user", content: "Hello." },
  { role: "assistant", content: reply },
];

it("measures its scale once for each reference, however many replies it is asked about", async () => {
  const { score, asked } = rememberingScorer(-2);
  expect(await fluencyOf(said("It is here."), { score }, "polite")).toEqual(new Map([[1, 1]]));
  const first = asked();
  expect(await fluencyOf(said("here it"), { score }, "polite")).toEqual(new Map([[1, 0]]));
  expect(await fluencyOf(said("It is there."), { score }, "polite")).toEqual(new Map([[1, 1]]));
  // The plain reply that tells the reference, and the reply itself.
  expect(asked() - first).toBe(4);
});

it("measures another scale for another reference", async () => {
  await fluencyOf(said("It is here."), { score: rememberingScorer(-2).score }, "polite");
  const { score } = rememberingScorer(-8);
  // −8 a token is word salad to the first reference, and plain language to this one.
  expect(await fluencyOf(said("It is here."), { score }, "polite")).toEqual(new Map([[1, 1]]));
});
