import { describe, expect, it } from "vitest";
import { ChainBuilder } from "./chain.ts";

describe("ChainBuilder", () => {
  it("records sampled tokens with their log-probs and turn, and marks nothing else for learning", () => {
    const chain = ChainBuilder.start([1, 2], "ab");
    chain.record({ tokens: [3, 4], logprobs: [-0.5, -0.25] }, "cd", 1);
    chain.append([5], "abcde");
    chain.record({ tokens: [6], logprobs: [-1] }, "f", 3, { learn: false });
    expect(chain.text).toBe("abcdef");
    expect([...chain.tokens]).toEqual([1, 2, 3, 4, 5, 6]);
    const built = chain.build();
    expect([...built.logprobs]).toEqual([0, 0, -0.5, -0.25, 0, -1]);
    expect([...built.learn]).toEqual([0, 0, 1, 1, 0, 0]);
    expect([...built.turn]).toEqual([-1, -1, 1, 1, -1, 3]);
  });

  it("gives out arrays that later growth does not touch", () => {
    const chain = ChainBuilder.start([1], "a");
    const before = chain.build();
    chain.append(
      Array.from({ length: 1000 }, (_, i) => i),
      "b",
    );
    expect([...before.tokens]).toEqual([1]);
    const after = chain.build();
    expect(after.tokens.length).toBe(1001);
    expect(after.turn.every((turn) => turn === -1)).toBe(true);
  });

  it("refuses log-probs that do not match the tokens", () => {
    expect(() => new ChainBuilder().record({ tokens: [1, 2], logprobs: [0] }, "", 0)).toThrow("2 sampled tokens");
  });
});
