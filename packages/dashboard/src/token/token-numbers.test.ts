import { expect, it } from "vitest";
import { Spelling } from "./spelling.ts";
import { linesOf } from "./token-numbers.ts";
import { tokensOf } from "./tokens.ts";

it("prints what was computed to the last digit of a float32, and a dash for what is not known", () => {
  const tokens = tokensOf({
    head: {
      chains: [{ from: 0, length: 2, started: null, versions: {} }],
      pieces: [{ id: 7, text: "a" }],
      tokenizer: "t",
      why: null,
    },
    columns: {
      tokens: Int32Array.of(7, 7),
      learn: Uint8Array.of(0, 1),
      turn: Int32Array.of(-1, 1),
      logprobs: Float32Array.of(0, -0.1),
      reference: Float32Array.of(Number.NaN, -0.3),
      advantage: Float32Array.of(Number.NaN, 1.25),
      ratio: Float32Array.of(Number.NaN, 0.98),
      clipped: Uint8Array.of(0, 1),
    },
  });
  const spelling = new Spelling(tokens);
  const of = (token: number) =>
    Object.fromEntries(linesOf(tokens, spelling, token, null).map(({ name, text }) => [name, text]));
  expect(of(1)).toMatchObject({
    id: "7",
    "log-prob": "−0.1",
    probability: "0.9048374",
    ratio: "0.98",
    advantage: "1.25",
    reference: "−0.3",
    difference: "0.20000002",
    value: "–",
    clipped: "yes",
    turn: "1",
    chain: "1 of 1, token 1",
  });
  expect(of(0)).toMatchObject({ "log-prob": "–", probability: "–", difference: "–", turn: "–" });
});
