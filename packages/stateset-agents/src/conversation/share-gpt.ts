/** ShareGPT's layout: `{from, value}` a message. Tool use as LLaMA-Factory writes it: `function_call` and `observation`. */
import { StatesetError } from "../error.ts";
import { parseJson } from "./read-entries.ts";

const roles: Readonly<Record<string, string>> = {
  ...{
    human: "user",
    user: "user",
    gpt: "assistant",
    chatgpt: "assistant",
    model: "assistant",
    assistant: "assistant",
  },
  ...{ system: "system", developer: "developer", tool: "tool", observation: "tool", function_response: "tool" },
};
const call = "function_call";

/** Its messages in the chat format, not yet checked: `{role, content}` is taken as well. */
export function readShareGpt(value: unknown, where: string): Record<string, unknown>[] {
  if (!Array.isArray(value)) return refuse(`${where}: "conversations" is no list`);
  const messages: Record<string, unknown>[] = [];
  let calling: unknown[] | undefined;
  for (const [i, one] of value.entries()) {
    const place = `${where}: message ${i + 1}`;
    if (typeof one !== "object" || one === null || Array.isArray(one)) return refuse(`${place} is not an object`);
    const { from, value: said, role = from, content = said, ...rest } = one as Record<string, unknown>;
    if (role === call) {
      const calls = callsIn(content, place);
      // Calls in a row are made at once: their results follow together.
      if (calling) calling.push(...calls);
      else {
        calling = calls;
        messages.push({ ...rest, role: "assistant", content: "", tool_calls: calling });
      }
      continue;
    }
    calling = undefined;
    const known = typeof role === "string" ? roles[role.toLowerCase()] : undefined;
    if (known === undefined) return refuse(`${place} is from ${JSON.stringify(role)}`);
    messages.push({ ...rest, role: known, content });
  }
  return messages;
}

function callsIn(content: unknown, place: string): unknown[] {
  const value = typeof content === "string" ? parseJson(content, `${place}, ${call}`) : content;
  return Array.isArray(value) ? value : [value];
}

function refuse(what: string): never {
  throw new StatesetError("INVALID_DATA", `${what}.`, {
    hint: `Each is {"from": "human", "value": "…"}, from one of ${[...Object.keys(roles), call].join(", ")}.`,
  });
}
