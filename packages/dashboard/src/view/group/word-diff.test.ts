import { describe, expect, it } from "vitest";
import { joinMarks, wordDiff, wordsOf } from "./word-diff.ts";

const own = (stretches: { text: string; own: boolean }[]) => stretches.filter((one) => one.own).map(({ text }) => text);
/** One of some, seeded. */
function chooser<T>(seed: number, from: readonly T[]): () => T {
  let state = seed;
  return () => {
    state = (state * 48271) % 2147483647;
    return from[state % from.length]!;
  };
}

const whole = (stretches: { text: string }[]) => stretches.map(({ text }) => text).join("");

describe("wordDiff()", () => {
  it("marks the words that differ", () => {
    const { left, right, different } = wordDiff("I am sorry about that.", "I am so sorry about it.");
    expect(own(left)).toEqual(["that"]);
    expect(own(right)).toEqual(["so ", "it"]);
    expect(different).toBe(3);
  });

  it("is nothing for equal texts, and all for one against nothing", () => {
    expect(own(wordDiff("a b", "a b").left)).toEqual([]);
    expect(own(wordDiff("a b", "").left)).toEqual(["a b"]);
    expect(wordDiff("", "")).toEqual({ left: [], right: [], different: 0 });
  });

  it("keeps both texts whole, and leaves the same once what is marked is taken away", () => {
    const word = chooser(7, ["yes", "no", "the", "order", ".", "日本", "a"]);
    for (let trial = 0; trial < 300; trial++) {
      const text = () => Array.from({ length: trial % 23 }, word).join(" ");
      const [a, b] = [text(), text()];
      const { left, right } = wordDiff(a, b);
      expect(whole(left)).toBe(a);
      expect(whole(right)).toBe(b);
      const common = (side: typeof left) => whole(side.filter((one) => !one.own));
      expect(common(left)).toBe(common(right));
    }
  });

  it("finds the fewest", () => {
    // By the textbook's table of lengths.
    const longest = (a: string[], b: string[]) => {
      const table = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
      for (let i = 1; i <= a.length; i++)
        for (let j = 1; j <= b.length; j++)
          table[i]![j] =
            a[i - 1] === b[j - 1] ? table[i - 1]![j - 1]! + 1 : Math.max(table[i - 1]![j]!, table[i]![j - 1]!);
      return table[a.length]![b.length]!;
    };
    const letter = chooser(99, ["a", "b", "c"]);
    for (let trial = 0; trial < 200; trial++) {
      const text = () => Array.from({ length: 1 + (trial % 9) }, letter).join(",");
      const [a, b] = [text(), text()];
      const kept = wordsOf(whole(wordDiff(a, b).left.filter((one) => !one.own))).length;
      expect(kept).toBe(longest(wordsOf(a), wordsOf(b)));
    }
  });

  it("gives up in time where nothing is alike", () => {
    const many = (word: string) => Array.from({ length: 20_000 }, (_, i) => `${word}${i}`).join(",");
    const { left } = wordDiff(`same ${many("x")} end`, `same ${many("y")} end`);
    expect(left[0]).toEqual({ text: "same ", own: false });
    expect(left.at(-1)).toEqual({ text: " end", own: false });
  });
});

it("marks a row of words as one", () => {
  expect(own(joinMarks(wordDiff("Please wait here.", "Do go on now.").left))).toEqual(["Please wait here"]);
  expect(own(joinMarks(wordDiff("a b", "a c").left))).toEqual(["b"]);
});
