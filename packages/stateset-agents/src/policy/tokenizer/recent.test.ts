import { describe, expect, it } from "vitest";
import { rememberRecent } from "./recent.ts";

describe("rememberRecent", () => {
  it("computes a text once while it is among the recent ones", () => {
    const computed: string[] = [];
    const length = rememberRecent((text) => {
      computed.push(text);
      return text.length;
    }, 10);
    expect(["abcd", "efgh", "abcd"].map(length)).toEqual([4, 4, 4]);
    expect(computed).toEqual(["abcd", "efgh"]);
    // Four more characters do not fit: "efgh" has not been met for longest.
    expect(["ijkl", "abcd", "efgh"].map(length)).toEqual([4, 4, 4]);
    expect(computed).toEqual(["abcd", "efgh", "ijkl", "efgh"]);
  });

  it("passes on a text that is too long, and keeps the others", () => {
    let calls = 0;
    const length = rememberRecent((text) => {
      calls++;
      return text.length;
    }, 10);
    length("abcd");
    length("much too long for it");
    length("much too long for it");
    length("abcd");
    expect(calls).toBe(3);
  });

  it("remembers nothing of a text that failed", () => {
    let fail = true;
    const encode = rememberRecent((text) => {
      if (fail) throw new Error("no");
      return text;
    });
    expect(() => encode("a")).toThrow("no");
    fail = false;
    expect(encode("a")).toBe("a");
  });
});
