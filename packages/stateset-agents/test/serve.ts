/** Asks a server without a port. Every reply, chunk and error on the way is held to OpenAI's own schemas. */
import { expect, onTestFinished } from "vitest";
import { type AgentServer, createServer } from "../src/server/create-server.ts";
import type { ServerOptions } from "../src/server/options.ts";
import { eventsOf } from "../src/test-support/read-events.ts";
import type { Json } from "./cli.ts";
import { type Kind, openaiProblem } from "./openai-schema.ts";

export interface Answered {
  status: number;
  headers: Headers;
  json: Json;
}

export interface Streamed {
  status: number;
  headers: Headers;
  /** Without the last, which only says that it was the last. */
  events: Json[];
  done: boolean;
}

export interface Client {
  server: AgentServer;
  /** A body is posted; a text as it is. */
  ask(path: string, body?: unknown, init?: RequestInit): Promise<Answered>;
  stream(path: string, body: object, init?: RequestInit): Promise<Streamed>;
  fetch(path: string, body?: unknown, init?: RequestInit): Promise<Response>;
}

/** A server that is closed when the test is done. */
export async function serve(models: ServerOptions["models"], options: Partial<ServerOptions> = {}): Promise<Client> {
  const server = await createServer({ models, ...options });
  onTestFinished(() => server.close());
  return clientOf(server);
}

export function clientOf(server: AgentServer): Client {
  const fetch = (path: string, body?: unknown, init: RequestInit = {}) => {
    const { headers, ...rest } = init;
    const posted = body !== undefined && {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    };
    return server.fetch(new Request(`http://localhost${path}`, { ...(headers && { headers }), ...rest, ...posted }));
  };
  return {
    server,
    fetch,
    async ask(path, body, init) {
      const { status, headers, ...response } = await whole(await fetch(path, body, init));
      expect(headers.get("x-request-id")).toBeTruthy();
      const json = JSON.parse(response.text) as Json;
      expectValid(path, json, "whole");
      if (status >= 400) expect(json).toHaveProperty("error");
      return { status, headers, json };
    },
    async stream(path, body, init) {
      const { status, headers, text } = await whole(await fetch(path, { ...body, stream: true }, init));
      expect(headers.get("content-type"), text).toContain("text/event-stream");
      const told = eventsOf(text);
      const events = told.filter((data) => data !== "[DONE]").map((data) => JSON.parse(data) as Json);
      for (const event of events) expectValid(path, event, "event");
      return { status, headers, events, done: told.at(-1) === "[DONE]" };
    },
  };
}

/** Requests that wait for their turn, as the metrics have it. */
export async function waitingIn({ fetch }: Pick<Client, "fetch">, model: string): Promise<number> {
  const text = await (await fetch("/metrics")).text();
  return Number(new RegExp(`^stateset_waiting\\{model="${model}"\\} (\\d+)$`, "m").exec(text)?.[1]);
}

async function whole(response: Response): Promise<{ status: number; headers: Headers; text: string }> {
  const { status, headers } = response;
  return { status, headers, text: await response.text() };
}

function expectValid(path: string, json: Json, kind: Kind): void {
  expect(openaiProblem(path, json, kind)).toBeUndefined();
}

/** A stream of chat chunks as the reply it would have been. */
export function joinedChat(events: readonly Json[]): Json[] {
  const choices: Json[] = [];
  for (const { choices: parts } of events) {
    for (const { index, delta, logprobs, finish_reason, token_ids = [] } of parts as Json[]) {
      choices[index] ??= { index, message: { role: "", content: "" }, logprobs: null, token_ids: [] };
      const choice = choices[index]!;
      const { message } = choice;
      if (delta.role) message.role = delta.role;
      if (delta.content) message.content += delta.content;
      if (delta.reasoning_content) {
        message.reasoning_content = (message.reasoning_content ?? "") + delta.reasoning_content;
      }
      for (const { index: at, id, type, function: call } of delta.tool_calls ?? []) {
        message.tool_calls ??= [];
        if (id) message.tool_calls[at] = { id, type, function: { name: call.name, arguments: "" } };
        message.tool_calls[at].function.arguments += call.arguments;
      }
      if (logprobs) choice.logprobs = { content: [...(choice.logprobs?.content ?? []), ...logprobs.content] };
      choice.token_ids.push(...token_ids);
      if (finish_reason) choice.finish_reason = finish_reason;
    }
  }
  return choices;
}

/** A stream of text chunks as the reply it would have been. */
export function joinedText(events: readonly Json[]): Json[] {
  const choices: Json[] = [];
  for (const { choices: parts } of events) {
    for (const { index, text, logprobs, ...rest } of parts as Json[]) {
      choices[index] ??= { index, text: "", logprobs: null };
      const choice = choices[index]!;
      choice.text += text;
      if (logprobs) {
        choice.logprobs ??= { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
        for (const name of Object.keys(logprobs)) choice.logprobs[name].push(...logprobs[name]);
      }
      if (rest.prompt_token_ids) choice.prompt_token_ids = rest.prompt_token_ids;
      if (rest.token_ids) choice.token_ids = [...(choice.token_ids ?? []), ...rest.token_ids];
      if (rest.finish_reason) choice.finish_reason = rest.finish_reason;
    }
  }
  return choices;
}
