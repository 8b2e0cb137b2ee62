/** The messages of a request, as clients write them, in the form the rest of the library has. */
import type { Message } from "../../../conversation/message.ts";
import { validateMessages } from "../../../conversation/validate-messages.ts";
import { nearest } from "../../../suggest.ts";
import { HttpError } from "../../http-error.ts";

const fields = ["role", "content", "name", "refusal", "tool_calls", "tool_call_id", "reasoning", "reasoning_content"];
/** What replies of OpenAI's carry and clients send back. It says nothing to a model that reads text. */
const noted = ["annotations", "audio", "function_call", "provider_specific_fields"];

export function readMessages(given: readonly unknown[], ignored: Set<string>): Message[] {
  return validateMessages(given.map((message, i) => readMessage(message, i, ignored)));
}

function readMessage(message: unknown, i: number, ignored: Set<string>): unknown {
  if (typeof message !== "object" || message === null) return message;
  const read: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(message)) {
    const param = `messages.${i}.${name}`;
    if (noted.includes(name)) {
      if (value !== null && !(Array.isArray(value) && value.length === 0)) ignored.add(`messages.${name}`);
    } else if (!fields.includes(name)) {
      const near = nearest(name, fields);
      const hint = near === undefined ? "" : ` Did you mean "${near}"?`;
      throw new HttpError(400, `Unknown field "${param}".${hint}`, { code: "unknown_field", param });
    } else if (name === "content") read.content = readContent(value, param);
    // The name that vLLM and others give it.
    else read[name === "reasoning_content" ? "reasoning" : name] = value;
  }
  return read;
}

/** Text parts are joined by validateMessages(); a refusal is text too. */
function readContent(content: unknown, param: string): unknown {
  if (!Array.isArray(content)) return content;
  return content.map((part: unknown, i) => {
    const { type, text, refusal } = (part ?? {}) as Record<string, unknown>;
    if (type === "refusal" && typeof refusal === "string") return { type: "text", text: refusal };
    if (type === "text" && typeof text === "string") return { type, text };
    const what = typeof type === "string" ? `a part of type "${type.slice(0, 40)}"` : "a part without a type";
    throw new HttpError(400, `"${param}.${i}" is ${what}; this model reads text alone.`, {
      code: "unsupported_content",
      param: `${param}.${i}`,
    });
  });
}
