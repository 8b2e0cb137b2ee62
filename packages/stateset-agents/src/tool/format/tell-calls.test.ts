import { expect, it } from "vitest";
import type { Message } from "../../conversation/message.ts";
import { callFormatNames } from "./call-format.ts";
import { callFormats } from "./choose-format.ts";
import { tellCalls } from "./tell-calls.ts";

it.each(callFormatNames)("tells a call in the same words, however its arguments are spaced and escaped: %s", (name) => {
  const told = (args: string) => {
    const call = { id: "1", type: "function" as const, function: { name: "f", arguments: args } };
    const messages: Message[] = [{ role: "assistant", content: "", tool_calls: [call] }];
    const options = { format: callFormats[name], one: "words", several: "words", unanswered: "words" } as const;
    return tellCalls(messages, options)[0]!.content;
  };
  const one = told('{"a": "x, y:  \\"z\\" ö", "b": [1, {"c": null}]}');
  expect(told('{"a":"x, y:  \\"z\\" \\u00f6","b":[1,{"c":null}]}')).toBe(one);
  expect(told('{ "a" :\n"x, y:  \\"z\\" ö","b":[ 1 ,{"c":null} ]}')).toBe(one);
  expect(told('{"a":"x, y: \\"z\\" ö","b":[1,{"c":null}]}')).not.toBe(one);
});
