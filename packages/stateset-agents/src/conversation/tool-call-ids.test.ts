import { describe, expect, it } from "vitest";
import { validateMessages } from "./validate-messages.ts";

const calls = (...names: string[]) => ({
  role: "assistant",
  content: "",
  tool_calls: names.map((name) => ({ name, arguments: { of: name } })),
});
const tool = (content: string, name?: string) => ({ role: "tool", content, ...(name && { name }) });
/** What each tool message answers, by the name and the place of the call. */
const answers = (...messages: unknown[]) => {
  const read = validateMessages(messages);
  const made = read.flatMap(({ tool_calls = [] }) => tool_calls);
  return read.flatMap(({ role, content, tool_call_id: id }) => {
    const at = made.findIndex((call) => call.id === id);
    return role === "tool" ? [`${content} ${made[at]?.function.name}${at}`] : [];
  });
};

describe("tool calls of data", () => {
  it("are written out whole, with ids that every template takes", () => {
    const [message] = validateMessages([
      {
        role: "assistant",
        tool_calls: [
          { name: "find", arguments: { city: "Rome" } },
          { name: "find", arguments: '{"city": "Oslo"}' },
          { id: "call00001", type: "function", function: { name: "find", arguments: "{}" } },
          { id: null, function: { name: "find", arguments: { city: "Bonn" } } },
        ],
      },
    ]);
    expect(message).toEqual({
      role: "assistant",
      content: "",
      tool_calls: [
        { id: "call00002", type: "function", function: { name: "find", arguments: '{"city":"Rome"}' } },
        { id: "call00003", type: "function", function: { name: "find", arguments: '{"city": "Oslo"}' } },
        { id: "call00001", type: "function", function: { name: "find", arguments: "{}" } },
        { id: "call00004", type: "function", function: { name: "find", arguments: '{"city":"Bonn"}' } },
      ],
    });
  });

  it("that are whole already come back as they were", () => {
    const call = { type: "function", id: "a", function: { name: "find", arguments: "not JSON" }, index: 0 };
    expect(JSON.stringify(validateMessages([{ role: "assistant", content: "", tool_calls: [call] }]))).toBe(
      JSON.stringify([{ role: "assistant", content: "", tool_calls: [call] }]),
    );
  });

  it("are answered in order, or by name", () => {
    expect(answers(calls("a"), tool("x"), calls("b"), tool("y"))).toEqual(["x a0", "y b1"]);
    expect(answers(calls("a", "b"), tool("x"), tool("y"))).toEqual(["x a0", "y b1"]);
    expect(answers(calls("a", "b"), tool("y", "b"), tool("x", "a"))).toEqual(["y b1", "x a0"]);
    expect(answers(calls("a", "b", "a"), tool("x", "a"), tool("y", "a"))).toEqual(["x a0", "y a2"]);
    expect(answers(calls("a", "b"), tool("y", "b"))).toEqual(["y b1"]);
    expect(answers(calls("a", "b"), tool("x", "a"), { role: "user", content: "?" }, tool("y"))).toEqual([
      "x a0",
      "y b1",
    ]);
  });

  it.each([
    ["without any call", [tool("x")], "message 1 is a tool result without tool_call_id, and no call before it"],
    ["that all have answers", [calls("a"), tool("x"), tool("y")], "message 3 is a tool result without tool_call_id"],
    ["of another name", [calls("a"), tool("x", "b")], 'no call to "b" before it is unanswered'],
    ["of which too few are answered to tell", [calls("a", "b"), tool("x")], "could answer any of 2 calls"],
    ["of one name, too few of them", [calls("a", "a"), tool("x", "a")], 'could answer any of 2 calls to "a"'],
  ])("%s are refused", (_, messages, problem) => {
    expect(() => validateMessages(messages)).toThrow(problem);
  });

  it.each([
    [{ name: "a" }],
    [{ arguments: {} }],
    [{ id: 5, name: "a", arguments: {} }],
    [{ name: "a", arguments: [] }],
  ])("are refused as %j, with what was expected", (bad) => {
    const message = { role: "assistant", content: "", tool_calls: [bad] };
    expect(() => validateMessages([message])).toThrow(/malformed tool_calls\. Each is .* or \{"name", "arguments"\}/);
  });
});
