/** How a conversation begins that somebody has begun already: a scenario's `prompt` or `messages`. */
import { z } from "zod";
import type { Message } from "../conversation/message.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { validateMessages } from "../conversation/validate-messages.ts";
import { StatesetError } from "../error.ts";

/** The keys of it, as users write them: messages are checked by readOpening. */
export const openingShape = {
  prompt: z
    .union([z.string().refine((text) => text.trim() !== "", "an empty prompt"), z.array(z.unknown())], {
      error: "a text or a list of messages was expected",
    })
    .optional(),
  messages: z.array(z.unknown()).optional(),
} as const;

/** `prompt` is left where it is a text. */
export interface Opening {
  prompt?: string;
  messages?: Message[];
  systemPrompt?: string;
}

/** Reads what openingShape has let through; `where` names the scenario. */
export function readOpening(
  {
    prompt,
    messages,
    systemPrompt,
  }: z.output<z.ZodObject<typeof openingShape>> & { systemPrompt?: string | undefined },
  where: string,
): Opening {
  if (prompt !== undefined && messages !== undefined) refuse(`${where} has both "prompt" and "messages"`, "Keep one.");
  if (typeof prompt === "string") return { prompt, ...(systemPrompt !== undefined && { systemPrompt }) };
  const key = prompt === undefined ? "messages" : "prompt";
  const read = validateMessages(prompt ?? messages, { where: `${where}.${key}`, code: "INVALID_SCENARIO" });
  const [head, ...rest] = read;
  if (head?.role !== "system") return { messages: read, ...(systemPrompt !== undefined && { systemPrompt }) };
  if (systemPrompt !== undefined) {
    refuse(`${where} has a systemPrompt, and its ${key} begin with a system message`, "Keep one.");
  }
  return { messages: rest, systemPrompt: head.content };
}

/** Whether the agent is to speak next. */
export function awaitsReply(messages: readonly { role: string }[] | undefined): boolean {
  const last = messages?.at(-1)?.role;
  return last === "user" || last === "tool";
}

/** The beginning of a scenario as turns that nobody learns from. Checked again: a scenario from elsewhere has passed no parser. */
export function givenTurns({ id, messages = [] }: { id: string; messages?: readonly Message[] }): Turn[] {
  const checked = validateMessages(messages, { where: `Scenario "${id}"`, code: "INVALID_SCENARIO" });
  return checked.map((message) => ({ ...message, given: true }));
}

function refuse(what: string, hint: string): never {
  throw new StatesetError("INVALID_SCENARIO", `${what}.`, { hint });
}
