import { describe, expect, it } from "vitest";
import type { Piece } from "../../../stateset-agents/src/dashboard/api/index.ts";
import { layLines, lineOf, neighbour } from "./lines.ts";
import { columnsOf, decodeRun, Spelling } from "./spelling.ts";
import { tokensOf } from "./tokens.ts";

function spelled(pieces: Omit<Piece, "id">[], chains = [0]): Spelling {
  const columns = {
    tokens: Int32Array.from(pieces, (_, i) => i),
    learn: new Uint8Array(pieces.length),
    turn: new Int32Array(pieces.length),
  };
  const head = {
    chains: chains.map((from) => ({ from, length: 1, started: null, versions: {} })),
    pieces: pieces.map((piece, id) => ({ id, ...piece })),
    tokenizer: "t",
    why: null,
  };
  return new Spelling(tokensOf({ head, columns }));
}

describe("bytes of several tokens", () => {
  it("become the character they make, on the token it begins in", () => {
    expect(decodeRun([[0xe2], [0x98], [0x83]]).map(({ text }) => text)).toEqual(["☃", "", ""]);
    expect(decodeRun([[0xe2], [0x98], [0x83]]).map(({ part }) => part)).toEqual(["☃", "☃", "☃"]);
    expect(decodeRun([[0x61, 0xf0, 0x9f], [0x98, 0x80, 0xc3], [0xa9]]).map(({ text }) => text)).toEqual([
      "a😀",
      "é",
      "",
    ]);
  });

  it("that make none are �, and spoil nothing beside them", () => {
    expect(decodeRun([[0xe2], [0x98]]).map(({ text }) => text)).toEqual(["�", "�"]);
    expect(decodeRun([[0xff, 0xc3], [0xa9]]).map(({ text }) => text)).toEqual(["�é", ""]);
    // A surrogate in UTF-8 is no character.
    expect(decodeRun([[0xed, 0xa0, 0x80]])[0]!.text).toBe("���");
  });

  it("do not join across tokens of text or chains", () => {
    const pieces = [{ bytes: [0xc3] }, { text: "x" }, { bytes: [0xc3] }, { bytes: [0xa9] }];
    expect([0, 1, 2, 3].map((i) => spelled(pieces).shown(i, false).text)).toEqual(["�", "x", "é", ""]);
    expect([2, 3].map((i) => spelled(pieces, [0, 3]).shown(i, false).text)).toEqual(["�", "�"]);
  });

  it("are shown as what each token holds where boundaries are", () => {
    const spelling = spelled([{ bytes: [0xe2, 0x98] }, { bytes: [0x83] }]);
    expect([0, 1].map((i) => spelling.shown(i, true).text)).toEqual(["e2 98", "83"]);
    expect(spelling.bytes(1)).toEqual({ hex: "83", part: "☃" });
  });
});

describe("what a token shows", () => {
  it("has its spaces and line feeds visible where boundaries are", () => {
    const spelling = spelled([{ text: " a\n\n" }, { text: "\tb\nc" }, { text: "<|im_end|>", special: true }, {}]);
    expect([0, 1, 2, 3].map((i) => spelling.shown(i, true).text)).toEqual(["␣a⏎⏎", "⇥b⏎c", "<|im_end|>", "#3"]);
    expect([0, 1, 2, 3].map((i) => spelling.shown(i, false).text)).toEqual([" a", "  b⏎c", "<|im_end|>", "#3"]);
    expect([0, 1, 2, 3].map((i) => spelling.shown(i, false).kind)).toEqual(["text", "text", "special", "unknown"]);
    expect(spelling.shown(0, false).breaks).toBe(2);
  });

  it("obeys and hides nothing", () => {
    const spelling = spelled([{ text: "\u001b[31mred" }, { text: "\u202eabc" }, { text: "<script>" }]);
    expect(spelling.shown(0, false).text).toBe("␛[31mred");
    expect(spelling.shown(1, false).text).toBe("‹RLO›abc");
    expect(spelling.shown(2, false).text).toBe("<script>");
  });

  it("is as wide as terminals have it", () => {
    expect(["abc", "日本", "e\u0301", "😀", "שלום"].map(columnsOf)).toEqual([3, 4, 1, 2, 4]);
  });
});

describe("lines", () => {
  const words = (texts: string[], columns: number, hidden?: (i: number) => boolean) => {
    const spelling = spelled(texts.map((text) => ({ text })));
    const lines = layLines([0, texts.length], columns, (i) => spelling.shown(i, false), hidden);
    return Array.from(lines.from, (from, i) => texts.slice(from, lines.to[i]).join(""));
  };

  it("break before the word that does not fit, and at line feeds", () => {
    expect(words(["the", " qu", "ick", " fox", "\n", "ran"], 8)).toEqual(["the", " quick", " fox\n", "ran"]);
    expect(words(["a\n\n", "b"], 8)).toEqual(["a\n\n", "", "b"]);
  });

  it("break within a word that is wider than the line", () => {
    expect(words(["aaaa", "bbbb", "cccc"], 8)).toEqual(["aaaabbbb", "cccc"]);
    expect(words(["x".repeat(30), "y"], 8)).toEqual(["x".repeat(30), "y"]);
  });

  it("take no room for what is hidden", () => {
    expect(words(["aaaa", "HIDDEN", "bbbb"], 8, (i) => i === 1)).toEqual(["aaaaHIDDENbbbb"]);
  });

  it("hold every token once, in order, and say in which line it is", () => {
    const texts = Array.from(
      { length: 3000 },
      (_, i) => [" word", "ing", ".\n", ",", " 日本語", "\n\n"][(i * i + 7) % 6]!,
    );
    const spelling = spelled(texts.map((text) => ({ text })));
    const lines = layLines([0, texts.length], 40, (i) => spelling.shown(i, false));
    let next = 0;
    lines.from.forEach((from, line) => {
      expect(from).toBe(next);
      next = lines.to[line]!;
      for (let token = from; token < next; token++) expect(lineOf(lines, token)).toBe(line);
    });
    expect(next).toBe(texts.length);
  });
});

describe("neighbour()", () => {
  // 0 1 2 / 3 4 / (empty) / 5
  const lines = { from: Int32Array.of(0, 3, 5, 5), to: Int32Array.of(3, 5, 5, 6) };
  const go = (key: string, at: number, hidden = -1) => neighbour(key, at, lines, [0, 6], (token) => token === hidden);

  it("goes along tokens, past those that are hidden, and not beyond the ends", () => {
    expect(go("ArrowRight", 2)).toBe(3);
    expect(go("ArrowRight", 2, 3)).toBe(4);
    expect(go("ArrowLeft", 4, 3)).toBe(2);
    expect(go("ArrowLeft", 0)).toBeUndefined();
    expect(go("ArrowRight", 5)).toBeUndefined();
    expect(go("x", 2)).toBeUndefined();
  });

  it("goes to the ends of a line, and to lines above and below it past empty ones", () => {
    expect([go("Home", 4), go("End", 3)]).toEqual([3, 4]);
    expect([go("ArrowDown", 2), go("ArrowDown", 4), go("ArrowUp", 5)]).toEqual([4, 5, 3]);
    expect([go("ArrowUp", 1), go("ArrowDown", 5)]).toEqual([undefined, undefined]);
  });
});
