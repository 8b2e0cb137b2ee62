import { describe, expect, it } from "vitest";
import { piecesOf } from "./pieces.ts";

describe("piecesOf()", () => {
  it("loses nothing", () => {
    const text = Array.from({ length: 5000 }, (_, i) => (i % 37 === 0 ? "\n" : i % 11 === 0 ? "😀" : "x")).join("");
    expect(piecesOf(text, 100, 333).join("")).toBe(text);
    expect(piecesOf("", 10, 10)).toEqual([]);
    expect(piecesOf("short", 10, 10)).toEqual(["short"]);
  });

  it("cuts at a line feed that is near, never within a character", () => {
    expect(piecesOf("aaaaaaa\nbbbbb", 10, 10)).toEqual(["aaaaaaa\n", "bbbbb"]);
    expect(piecesOf("abc😀def", 4, 4)).toEqual(["abc", "😀de", "f"]);
  });

  it("comes to an end on anything", () => {
    expect(piecesOf("\ud83d".repeat(9), 2, 2).join("")).toBe("\ud83d".repeat(9));
    expect(piecesOf("\ud83d\ud83d\ud83d", 1, 1).join("")).toBe("\ud83d\ud83d\ud83d");
  });
});
