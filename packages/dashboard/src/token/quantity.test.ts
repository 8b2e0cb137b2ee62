import { describe, expect, it } from "vitest";
import { buckets, middle } from "./colours.ts";
import { bucketOf, colourClass, firstOf, knownQuantities, quantities, reachOf, ticksOf } from "./quantity.ts";
import { type Tokens, tokensOf, whyItLearns } from "./tokens.ts";

const quantity = (name: string) => quantities.find((one) => one.name === name)!;

function made(
  numbers: Tokens["numbers"],
  count: number,
  change: Partial<Record<"learn" | "turn", number[]>> = {},
  from = -1,
): Tokens {
  const { learn = new Array(count).fill(1), turn = new Array(count).fill(0) } = change;
  // The first token of a chain never learns: left out, it began before these.
  const chains = [{ from, length: count, started: null, versions: {} }];
  const columns = {
    tokens: new Int32Array(count),
    learn: Uint8Array.from(learn),
    turn: Int32Array.from(turn),
    ...(numbers as Record<string, Float32Array>),
  };
  return tokensOf({ head: { chains, pieces: [], tokenizer: null, why: null }, columns });
}

describe("colours by a quantity", () => {
  it("centres an advantage at 0 and shows the sign of the smallest", () => {
    const tokens = made({ advantage: Float32Array.of(-2, -0.05, 0, 0.05, 1) }, 5);
    const advantage = quantity("advantage");
    const reach = reachOf(advantage, [tokens]);
    expect(reach).toEqual({ low: -2, high: 2, count: 5 });
    expect([...tokens.numbers.advantage!].map((value) => bucketOf(advantage, reach, value))).toEqual([
      0,
      middle - 1,
      middle,
      middle + 1,
      middle + 4,
    ]);
    expect(ticksOf(advantage, reach)).toEqual(["−2", "0", "2"]);
  });

  it("centres a ratio at 1 in log space: half is as blue as twice is orange", () => {
    const tokens = made({ ratio: Float32Array.of(0.5, 1, 2) }, 3);
    const ratio = quantity("ratio");
    const reach = reachOf(ratio, [tokens]);
    expect([0.5, 1, 2].map((value) => bucketOf(ratio, reach, value))).toEqual([0, middle, buckets - 1]);
    expect(ticksOf(ratio, reach)).toEqual(["0.5", "1", "2"]);
  });

  it("does not stretch rounding to the ends of the scale", () => {
    const tokens = made({ ratio: Float32Array.of(0.9999999, 1, 1.0000001) }, 3);
    expect(bucketOf(quantity("ratio"), reachOf(quantity("ratio"), [tokens]), Math.fround(1.0000001))).toBe(middle);
  });

  it("is not washed out by one token that stands far out", () => {
    const logprobs = new Float32Array(1000).fill(-0.5);
    for (let i = 0; i < 500; i++) logprobs[i] = -1;
    logprobs[0] = -90;
    const reach = reachOf(quantity("logprob"), [made({ logprobs }, 1000)]);
    expect(reach).toMatchObject({ low: -1, high: 0 });
    expect(bucketOf(quantity("logprob"), reach, -90)).toBe(buckets - 1);
    expect(bucketOf(quantity("logprob"), reach, 0)).toBe(0);
  });

  it("leaves grey what does not learn and what has no number", () => {
    const tokens = made({ entropy: Float32Array.of(1, Number.NaN, 1) }, 3, { learn: [1, 1, 0] });
    const entropy = quantity("entropy");
    const reach = reachOf(entropy, [tokens]);
    expect([0, 1, 2].map((i) => colourClass(entropy, reach, tokens, i))).toEqual([
      `plain-${buckets - 1}`,
      "still",
      "still",
    ]);
  });

  it("offers what the run has", () => {
    const known = knownQuantities(made({ logprobs: Float32Array.of(-1), value: Float32Array.of(Number.NaN) }, 1));
    expect(known.map(({ name }) => name)).toEqual(["logprob"]);
  });

  it("takes no log-prob of 0 for one where nothing was sampled", () => {
    const tokens = made({ logprobs: Float32Array.of(0, 0) }, 2, { turn: [-1, 3] });
    expect([0, 1].map((i) => quantity("logprob").of(tokens, i))).toEqual([Number.NaN, 0]);
  });

  it("takes one of 0 for a log-prob where tokens of data were scored", () => {
    const tokens = made({ logprobs: Float32Array.of(0, 0, -1) }, 3, { turn: [-1, -1, -1], learn: [0, 1, 1] });
    expect([0, 1, 2].map((i) => quantity("logprob").of(tokens, i))).toEqual([Number.NaN, 0, -1]);
  });

  it("looks first at the advantage, of data at the difference from the reference", () => {
    const names = (...own: string[]) => own.map(quantity);
    expect(firstOf(names("ratio", "advantage"))?.name).toBe("advantage");
    expect(firstOf(names("logprob", "difference"))?.name).toBe("difference");
    expect(firstOf(names("logprob"))?.name).toBe("logprob");
    expect(firstOf([])).toBeUndefined();
  });

  it("has a scale where there is no number, or one", () => {
    for (const one of quantities) {
      for (const tokens of [made({}, 3), made({ value: Float32Array.of(2), logprobs: Float32Array.of(0) }, 1)]) {
        const { low, high } = reachOf(one, [tokens]);
        expect(high).toBeGreaterThan(low);
      }
    }
  });
});

it("says why a token does not learn", () => {
  const tokens = made({ advantage: Float32Array.of(1, 0, -1, 1) }, 4, { learn: [1, 1, 1, 0], turn: [0, 0, 0, -1] }, 0);
  const why = [0, 1, 2, 3].map((i) => whyItLearns(tokens, i, null));
  expect(why[0]).toContain("begins its chain");
  expect(why[1]).toContain("advantage is 0");
  expect(why[2]).toContain("less likely");
  expect(why[3]).toContain("part of the prompt");
  expect(whyItLearns(tokens, 2, "refused")).toContain("refused");
  expect([...tokens.learns]).toEqual([0, 1, 1, 0]);
});
