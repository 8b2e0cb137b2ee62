/** A chat endpoint for tests of judges, whose every call a handler answers. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach } from "vitest";
import { type Clock, createJudge, type JudgeOptions } from "../endpoint/judge.ts";
import { openaiJudgeModel } from "../endpoint/openai-judge-model.ts";
import type { RewardInput } from "../reward/reward-function.ts";

type Handler = (body: ChatBody, request: IncomingMessage, response: ServerResponse, call: number) => void;
interface ChatBody {
  model: string;
  messages: { role: string; content: string }[];
  temperature: number;
  seed: number;
  max_tokens: number;
}

const servers: Server[] = [];
afterEach(async () => {
  await Promise.all(
    servers.splice(0).map((server) => {
      server.closeAllConnections();
      return new Promise((done) => server.close(done));
    }),
  );
});

/** A chat endpoint whose every call is answered by the handler. */
export async function endpoint(
  handler: Handler,
): Promise<{ baseURL: string; bodies: ChatBody[]; mostAtOnce: () => number }> {
  const bodies: ChatBody[] = [];
  let open = 0;
  let most = 0;
  const server = createServer((request, response) => {
    most = Math.max(most, ++open);
    response.on("close", () => open--);
    let text = "";
    request.on("data", (chunk) => {
      text += chunk;
    });
    request.on("end", () => {
      const body = JSON.parse(text) as ChatBody;
      bodies.push(body);
      handler(body, request, response, bodies.length);
    });
  });
  servers.push(server);
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  return { baseURL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, bodies, mostAtOnce: () => most };
}

export function answer(
  response: ServerResponse,
  content: string,
  usage: unknown = { prompt_tokens: 100, completion_tokens: 10 },
) {
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ choices: [{ message: { role: "assistant", content } }], usage }));
}

export function fail(response: ServerResponse, status: number, headers: Record<string, string> = {}, body = "no") {
  response.writeHead(status, headers);
  response.end(body);
}

/** Sleeps take no time but move the clock; what was slept is kept. */
export function fakeClock(): Clock & { slept: number[]; time: number } {
  const clock = {
    slept: [] as number[],
    time: 0,
    now: () => clock.time,
    async sleep(ms: number) {
      clock.slept.push(ms);
      clock.time += ms;
    },
  };
  return clock;
}

export const key = "sk-secret-123";
export const judgeAt = (baseURL: string, options: Partial<JudgeOptions> = {}, clock: Clock = fakeClock()) =>
  createJudge({ model: openaiJudgeModel({ model: "m", baseURL, apiKey: key }), ...options }, clock);
export const talk = (reply: string): RewardInput => ({
  turns: [
    { role: "user", content: "Where is my order?" },
    { role: "assistant", content: reply },
  ],
});
export const rubric = "Polite and short.";
