/** One client of a server: asks for a reply as a stream, and may leave early or read late. */
import { type Agent, request as send } from "node:http";
import { createEventReader } from "../../src/test-support/read-events.ts";

/** What is asked, and by which seed the reply is drawn: all of it follows from a number, so that anybody can draw it again. */
export function askedBy(seed: number) {
  const topics = ["a dog", "the rain", "a red ball", "one small house", "her friend", "the park"];
  return {
    messages: [{ role: "user" as const, content: `tell me of ${topics[seed % topics.length]} ${seed}` }],
    seed,
    maxTokens: 8 + (seed % 57),
  };
}

export interface Client {
  url: string;
  token?: string | undefined;
  model: string;
  agent?: Agent | undefined;
}

/** How a client behaves: it leaves after so many events, or reads nothing for so long after the first. */
export interface Manner {
  leavesAfter?: number;
  sleepsMs?: number;
}

export interface Seen {
  seed: number;
  /** 0 where the connection broke before there was one. */
  status: number;
  text: string;
  tokens: number[];
  prompt: number[];
  finish: string | undefined;
  /** Nothing is missing: the stream said that it ended. */
  whole: boolean;
  /** The client was the one who ended it. */
  left: boolean;
  firstMs: number | undefined;
  /** What the server said was wrong, or what broke. */
  error: string | undefined;
  retryMs: number | undefined;
}

interface Chunk {
  error?: { code: string | null; message: string };
  prompt_token_ids?: number[];
  choices: { delta: { content?: string }; finish_reason: string | null; token_ids?: number[] }[];
}

export function ask({ url, token, model, agent }: Client, seed: number, manner: Manner = {}): Promise<Seen> {
  const { messages, maxTokens } = askedBy(seed);
  const neutral = { temperature: 1, top_p: 1, top_k: -1, min_p: 0 };
  const body = JSON.stringify({
    ...{ model, messages, seed, max_tokens: maxTokens, ...neutral, stream: true, return_token_ids: true },
  });
  const seen: Seen = {
    ...{ seed, status: 0, text: "", tokens: [], prompt: [], finish: undefined, whole: false, left: false },
    ...{ firstMs: undefined, error: undefined, retryMs: undefined },
  };
  const began = performance.now();
  const read = (chunk: Chunk) => {
    if (chunk.error) {
      seen.error = chunk.error.code ?? chunk.error.message;
      return;
    }
    seen.prompt.push(...(chunk.prompt_token_ids ?? []));
    const [choice] = chunk.choices;
    if (!choice) return;
    const { content = "" } = choice.delta;
    if (content !== "") seen.firstMs ??= performance.now() - began;
    seen.text += content;
    seen.tokens.push(...(choice.token_ids ?? []));
    seen.finish = choice.finish_reason ?? seen.finish;
  };
  return new Promise((settle) => {
    const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
    const request = send(`${url}/v1/chat/completions`, { method: "POST", headers, ...(agent && { agent }) });
    const broke = (error: Error) => {
      seen.error ??= seen.left ? undefined : error.message;
      settle(seen);
    };
    request.on("error", broke);
    request.on("response", (response) => {
      let events = 0;
      let refusal = "";
      const readEvents = createEventReader();
      seen.status = response.statusCode!;
      seen.retryMs = Number(response.headers["retry-after-ms"]) || undefined;
      response.setEncoding("utf8");
      response.on("data", (text: string) => {
        if (seen.status !== 200) {
          refusal += text;
          return;
        }
        const told = readEvents(text);
        for (const data of told) {
          if (data === "[DONE]") seen.whole = true;
          else read(JSON.parse(data) as Chunk);
          if (++events === manner.leavesAfter) {
            seen.left = true;
            request.destroy();
            return settle(seen);
          }
        }
        if (manner.sleepsMs !== undefined && events === told.length) {
          response.pause();
          setTimeout(() => response.resume(), manner.sleepsMs);
        }
      });
      response.on("error", broke);
      response.on("end", () => {
        if (seen.status !== 200) seen.error = (JSON.parse(refusal) as Chunk).error?.code ?? refusal;
        settle(seen);
      });
    });
    request.end(body);
  });
}
