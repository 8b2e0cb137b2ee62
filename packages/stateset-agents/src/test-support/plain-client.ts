/** A client of /v1/chat/completions that is nobody's SDK, for tests of harnesses. */
import type { Message } from "../conversation/message.ts";
import { eventsOf } from "./read-events.ts";

export interface Access {
  baseURL: string;
  apiKey: string;
  model: string;
  signal?: AbortSignal | undefined;
}

export type Given = Partial<Message> & { role: Message["role"] };

export function post({ baseURL, apiKey, signal }: Access, path: string, body: unknown): Promise<Response> {
  return fetch(`${baseURL}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });
}

export function postReward(access: Access, body: unknown): Promise<Response> {
  return post({ ...access, baseURL: access.baseURL.replace(/\/v1$/, "") }, "/reward", body);
}

/** The assistant's message. Throws what the server says where it refuses. */
export async function ask(
  access: Access,
  messages: readonly Given[],
  more: Record<string, unknown> = {},
): Promise<Message> {
  const response = await post(access, "/chat/completions", { model: access.model, messages, ...more });
  const body = (await response.json()) as {
    choices: { message: Message }[];
    error?: { message: string; code: string };
  };
  if (body.error) throw new Error(`${response.status} ${body.error.code}: ${body.error.message}`);
  return body.choices[0]!.message;
}

interface Chunk {
  choices?: { delta: { content?: string } }[];
}

/** The same as a stream, its words put together. */
export async function askStream(
  access: Access,
  messages: readonly Given[],
  more: Record<string, unknown> = {},
): Promise<Message> {
  const asked = { model: access.model, messages, stream: true, ...more };
  const response = await post(access, "/chat/completions", asked);
  const chunks = eventsOf(await response.text()).map((data): Chunk => (data === "[DONE]" ? {} : JSON.parse(data)));
  const said = chunks.map(({ choices }) => choices?.[0]?.delta.content ?? "");
  return { role: "assistant", content: said.join("") };
}
