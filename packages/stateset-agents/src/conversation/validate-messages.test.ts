import { describe, expect, it } from "vitest";
import { validateMessages } from "./validate-messages.ts";

const call = { id: "1", type: "function", function: { name: "f", arguments: "{}" } };

describe("messages as OpenAI writes them", () => {
  it("may have no content beside tool calls or a refusal, which then is the content", () => {
    const messages = [
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "assistant", tool_calls: [call], refusal: null, name: null },
      { role: "assistant", content: null, refusal: "I cannot do that.", tool_calls: null },
      { role: "assistant", content: "Here.", refusal: null },
      { role: "assistant", content: [], tool_calls: [call] },
    ];
    expect(validateMessages(messages)).toEqual([
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "assistant", content: "I cannot do that." },
      { role: "assistant", content: "Here." },
      { role: "assistant", content: "", tool_calls: [call] },
    ]);
    for (const bad of [{ content: null }, {}, { content: null, tool_calls: [] }, { refusal: 5 }, { content: [] }]) {
      expect(() => validateMessages([{ role: "assistant", ...bad }])).toThrow(/has content that is/);
    }
  });

  it("may have content in text parts, and the role developer", () => {
    const parts = [
      { type: "text", text: "Be " },
      { type: "text", text: "brief." },
    ];
    expect(validateMessages([{ role: "developer", content: parts }])).toEqual([
      { role: "developer", content: "Be brief." },
    ]);
    expect(() => validateMessages([{ role: "root", content: "x" }])).toThrow(/developer/);
  });

  it("may call reasoning what other clients call it", () => {
    const answer = { role: "assistant", content: "x" };
    const messages = [
      { ...answer, reasoning_content: "Hm." },
      { ...answer, reasoning_content: null },
      { ...answer, reasoning: "So.", reasoning_content: "Hm." },
    ];
    expect(validateMessages(messages)).toEqual([
      { ...answer, reasoning: "Hm." },
      answer,
      { ...answer, reasoning: "So." },
    ]);
    expect(() => validateMessages([{ ...answer, reasoning_content: 5 }])).toThrow(/reasoning/);
  });

  it("keep fields the library does not know, null or not, and the order they came in", () => {
    const message = { weight: 0, role: "user", audio: null, content: "x" };
    expect(JSON.stringify(validateMessages([message]))).toBe(JSON.stringify([message]));
  });

  it("cannot say what was sampled: that is known here alone", () => {
    const sampled = { text: "anything", finishReason: "stop" };
    expect(validateMessages([{ role: "assistant", content: "x", sampled }])).toEqual([
      { role: "assistant", content: "x" },
    ]);
  });
});
