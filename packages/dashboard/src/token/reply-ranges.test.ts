import { describe, expect, it } from "vitest";
import { reasoningEnd, replyRanges } from "./reply-ranges.ts";
import { tokensOf } from "./tokens.ts";

function made(turn: number[], learn: number[], chains = [[0, turn.length]]) {
  const columns = { tokens: new Int32Array(turn.length), turn: Int32Array.from(turn), learn: Uint8Array.from(learn) };
  const placed = chains.map(([from, length]) => ({ from: from!, length: length!, started: null, versions: {} }));
  return tokensOf({ head: { chains: placed, pieces: [], tokenizer: null, why: null }, columns });
}
const message = (role: string) => ({ role });

describe("replyRanges()", () => {
  it("goes by the turn where tokens were sampled, whatever learns", () => {
    const tokens = made([-1, -1, 1, 1, 1, -1, 3, 3], [0, 0, 1, 0, 1, 0, 1, 1]);
    expect([...replyRanges(tokens, [])]).toEqual([
      [1, [2, 5]],
      [3, [6, 8]],
    ]);
  });

  it("finds a reply in the chain that sampled it", () => {
    const tokens = made(
      [-1, 1, 1, -1, -1, -1, 3],
      [0, 1, 1, 0, 0, 0, 1],
      [
        [0, 3],
        [3, 4],
      ],
    );
    expect(replyRanges(tokens, []).get(3)).toEqual([6, 7]);
  });

  it("gives runs that are learnt from to the last replies of data", () => {
    const tokens = made([-1, -1, -1, -1, -1, -1], [0, 1, 1, 0, 1, 1]);
    const messages = ["user", "assistant", "user", "assistant", "user", "assistant"].map(message);
    expect([...replyRanges(tokens, messages)]).toEqual([
      [3, [1, 3]],
      [5, [4, 6]],
    ]);
    expect([...replyRanges(tokens, [message("assistant")])]).toEqual([[0, [4, 6]]]);
  });
});

describe("reasoningEnd()", () => {
  const pieces = ["<think>", " so", " hmm", "</think>", "\n\n", "The", " end", "<eos>"];
  const raw = (i: number) => pieces[i] ?? "";

  it("is where the answer begins", () => {
    expect(reasoningEnd([0, 8], raw, { reasoning: " so hmm", content: "The end" })).toBe(5);
  });

  it("is behind the closing mark where there is no answer that can be found", () => {
    expect(reasoningEnd([0, 8], raw, { reasoning: " so hmm", content: "" })).toBe(4);
  });

  it("is the beginning where there is no reasoning, or it is not what was sampled", () => {
    expect(reasoningEnd([0, 8], raw, { content: "The end" })).toBe(0);
    expect(reasoningEnd([0, 8], raw, { reasoning: "other", content: "The end" })).toBe(0);
  });
});
