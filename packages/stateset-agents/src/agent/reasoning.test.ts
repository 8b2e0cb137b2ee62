import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { answerOnly, splitReasoning } from "./reasoning.ts";

describe("splitReasoning", () => {
  it.each([
    ["Hello.", { content: "Hello." }],
    ["<think>\nhm\n</think>\n\nHello.", { reasoning: "hm", content: "Hello." }],
    ["hm</think>Hello.", { reasoning: "hm", content: "Hello." }],
    ["<think></think>Hello.", { content: "Hello." }],
    ["<think>cut off", { reasoning: "cut off", content: "" }],
    ["I <think> so.", { content: "I <think> so." }],
  ])("%j", (text, expected) => expect(splitReasoning(text)).toEqual(expected));
});

describe("answerOnly", () => {
  const streamed = (text: string, cuts: number[]) => {
    let out = "";
    const filter = answerOnly((piece) => {
      out += piece;
    });
    let at = 0;
    for (const cut of cuts) {
      filter.push(text.slice(at, at + cut));
      at += cut;
    }
    filter.push(text.slice(at));
    filter.end();
    return out;
  };

  it("gives the same answer as splitting the whole, wherever the stream is cut", () => {
    const texts = fc.constantFrom(
      "Hello <b>",
      "<think>a<b\n</think>\n Hi.",
      " <think>x",
      "<thi",
      "",
      "<think></think>ok",
    );
    fc.assert(
      fc.property(texts, fc.array(fc.nat(6)), (text, cuts) => {
        expect(streamed(text, cuts)).toBe(splitReasoning(text).content);
      }),
    );
  });
});
