import { expect, it } from "vitest";
import { openaiProblem } from "./openai-schema.ts";

const choice = { index: 0, message: { role: "assistant", content: "a", refusal: null }, logprobs: null };
const head = { id: "a", created: 1, model: "m" };
const whole = { ...head, object: "chat.completion", choices: [{ ...choice, finish_reason: "stop" }] };
const chunk = { ...head, object: "chat.completion.chunk", choices: [{ index: 0, delta: {}, finish_reason: null }] };

it("takes what OpenAI would say, and nothing else", () => {
  const chat = "/v1/chat/completions";
  expect(openaiProblem(chat, whole, "whole")).toBeUndefined();
  expect(openaiProblem(chat, { ...chunk, usage: null }, "event")).toBeUndefined();
  expect(openaiProblem(chat, chunk, "whole")).toContain("message");
  expect(openaiProblem(chat, { ...whole, choices: [choice] }, "whole")).toContain("finish_reason");
  expect(openaiProblem(chat, { error: { message: "no", type: "x", param: null } }, "event")).toContain("code");
  const text = {
    ...head,
    object: "text_completion",
    choices: [{ index: 0, text: "", logprobs: null, finish_reason: null }],
  };
  expect(openaiProblem("/v1/completions", text, "event")).toBeUndefined();
  expect(openaiProblem("/v1/completions", text, "whole")).toContain("finish_reason");
  expect(openaiProblem("/v1/models/a/b", { id: "a", object: "model", created: 1 }, "whole")).toContain("owned_by");
  expect(openaiProblem("/v1/embeddings", { object: "list", data: [{}] }, "whole")).toContain("model");
  expect(openaiProblem("/tokenize", {}, "whole")).toBeUndefined();
});
