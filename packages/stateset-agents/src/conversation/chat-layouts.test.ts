import { describe, expect, it } from "vitest";
import { readChat } from "./chat-layouts.ts";
import type { Message } from "./message.ts";

const read = (line: unknown) => readChat(line, "data.jsonl, line 7");
const messages = (line: unknown) => read(line).messages;
const user = (content: string): Message => ({ role: "user", content });
const assistant = (content: string): Message => ({ role: "assistant", content });
const system = (content: string): Message => ({ role: "system", content });
const call = (id: string, name: string, args: string) => ({
  id,
  type: "function" as const,
  function: { name, arguments: args },
});

describe("prompt and completion", () => {
  it("are strings or messages, and other keys of the line stay", () => {
    expect(read({ id: 5, prompt: "Hi", completion: "Hello." })).toEqual({
      id: 5,
      messages: [user("Hi"), assistant("Hello.")],
    });
    expect(messages({ prompt: [system("Be brief."), user("Hi")], completion: [assistant("Hello.")] })).toEqual([
      system("Be brief."),
      user("Hi"),
      assistant("Hello."),
    ]);
  });

  it("teach the completion alone: what the assistant said in the prompt weighs nothing", () => {
    const prompt = [user("Hi"), assistant("Hello."), user("Bye")];
    expect(messages({ prompt, completion: "Goodbye." })).toEqual([
      user("Hi"),
      { ...assistant("Hello."), weight: 0 },
      user("Bye"),
      assistant("Goodbye."),
    ]);
  });

  it("may have the tool call in the prompt and its result in the completion", () => {
    const prompt = [user("Weather?"), { role: "assistant", tool_calls: [{ name: "weather", arguments: {} }] }];
    const completion = [{ role: "tool", name: "weather", content: "rain" }, assistant("It rains.")];
    expect(messages({ prompt, completion })[2]).toMatchObject({ role: "tool", tool_call_id: "call00001" });
  });
});

it.each([
  ["messages", { messages: [user("Hi"), assistant("Hello.")] }],
  ["prompt and completion", { prompt: "Hi", completion: "Hello." }],
  ["ShareGPT", { conversations: [user("Hi"), assistant("Hello.")] }],
  ["Alpaca", { instruction: "Hi", output: "Hello." }],
])("%s may have a system prompt beside them, and tools as JSON text", (_, line) => {
  const weather = { name: "weather", parameters: {} };
  expect(read({ ...line, system: "Be kind.", tools: JSON.stringify([weather]) })).toEqual({
    messages: [system("Be kind."), user("Hi"), assistant("Hello.")],
    tools: [{ type: "function", function: weather }],
  });
  expect(read({ ...line, system: null, tools: null })).toEqual({ messages: [user("Hi"), assistant("Hello.")] });
  expect(() => read({ ...line, system: ["Be kind."] })).toThrow("line 7: its system is not a string");
});

describe("ShareGPT", () => {
  it("says from and value, or role and content, with the system prompt in the list or beside it", () => {
    const conversations = [
      { from: "human", value: "Hi" },
      { from: "gpt", value: "Hello." },
      { role: "user", content: "Bye" },
      { role: "assistant", content: "Goodbye." },
    ];
    const said = [user("Hi"), assistant("Hello."), user("Bye"), assistant("Goodbye.")];
    expect(messages({ conversations })).toEqual(said);
    expect(messages({ conversations, system: "Be kind." })).toEqual([system("Be kind."), ...said]);
    const headed = [{ from: "system", value: "Be kind." }, ...conversations];
    expect(messages({ conversations: headed, system: "Be kind." })).toEqual([system("Be kind."), ...said]);
    expect(() => read({ conversations: headed, system: "Be rude." })).toThrow(
      'line 7: it has a "system" and its conversation begins with another',
    );
  });

  it("calls tools by function_call and hears of them by observation", () => {
    const line = {
      tools: '[{"name": "weather", "parameters": {"type": "object"}}]',
      conversations: [
        { from: "human", value: "Rain in Rome or Oslo?" },
        { from: "function_call", value: '{"name": "weather", "arguments": {"city": "Rome"}}' },
        { from: "function_call", value: '{"name": "weather", "arguments": {"city": "Oslo"}}' },
        { from: "observation", value: "sun" },
        { from: "tool", value: "rain" },
        { from: "gpt", value: "In Oslo." },
      ],
    };
    const calls = [call("call00001", "weather", '{"city":"Rome"}'), call("call00002", "weather", '{"city":"Oslo"}')];
    expect(read(line)).toEqual({
      tools: [{ type: "function", function: { name: "weather", parameters: { type: "object" } } }],
      messages: [
        user("Rain in Rome or Oslo?"),
        { role: "assistant", content: "", tool_calls: calls },
        { role: "tool", content: "sun", tool_call_id: "call00001" },
        { role: "tool", content: "rain", tool_call_id: "call00002" },
        assistant("In Oslo."),
      ],
    });
  });

  it.each([
    [{ conversations: "Hi" }, '"conversations" is no list. Each is {"from": "human"'],
    [{ conversations: ["Hi"] }, "message 1 is not an object"],
    [{ conversations: [{ from: "narrator", value: "x" }] }, 'message 1 is from "narrator"'],
    [{ conversations: [{ from: "human", value: 5 }] }, "message 1 has content that is a number"],
    [{ conversations: [{ from: "function_call", value: "weather()" }] }, "message 1, function_call: not valid JSON"],
    [{ conversations: [{ from: "function_call", value: '{"name": 5}' }] }, "message 1 has malformed tool_calls"],
    [{ conversations: [], tools: "[weather]" }, "tools: not valid JSON"],
    [{ conversations: [], system: 5 }, "its system is not a string"],
  ])("is refused as %j", (line, message) => {
    expect(() => read(line)).toThrow(`data.jsonl, line 7: ${message}`);
  });
});

describe("Alpaca", () => {
  it("joins instruction and input, and puts the system prompt and the history before them", () => {
    expect(messages({ instruction: "Translate.", input: "Hund", output: "dog" })).toEqual([
      user("Translate.\nHund"),
      assistant("dog"),
    ]);
    const history = [["Who are you?", "A dictionary."]];
    expect(messages({ instruction: "", input: "Hund?", output: "dog", system: "Be brief.", history })).toEqual([
      system("Be brief."),
      user("Who are you?"),
      assistant("A dictionary."),
      user("Hund?"),
      assistant("dog"),
    ]);
  });

  it.each([
    [{ instruction: "x", output: null }, "its output is not a string"],
    [{ instruction: "", input: " ", output: "y" }, "its instruction and its input are empty"],
    [{ instruction: "x", output: "y", history: ["a"] }, "its history is no list of pairs"],
  ])("is refused as %j", (line, message) => {
    expect(() => read(line)).toThrow(`line 7: ${message}`);
  });
});

describe("a line", () => {
  it("that has messages is read by them, whatever else it holds", () => {
    expect(read({ messages: [user("Hi")], prompt: "Hi", completion: "no" })).toEqual({
      messages: [user("Hi")],
      prompt: "Hi",
      completion: "no",
    });
  });

  it("of two layouts, or of a preference pair, is refused", () => {
    const both = { prompt: "a", completion: "b", instruction: "c", output: "d" };
    expect(() => read(both)).toThrow('it has "prompt" and "completion" as well as "instruction" and "output"');
    expect(() => read({ prompt: "a", chosen: "b", rejected: "c" })).toThrow("loadPreferencePairs() reads these");
  });
});
