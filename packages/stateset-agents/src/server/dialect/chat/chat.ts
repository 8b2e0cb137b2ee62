/** POST /v1/chat/completions. */
import { randomBytes } from "node:crypto";
import { openSession } from "../../../agent/multi-turn-agent.ts";
import type { Prompt } from "../../../agent/policy-session.ts";
import type { Sample, SampleToken } from "../../../policy/policy.ts";
import { repeated, takeTurn } from "../../draw.ts";
import type { EventStream } from "../../event-stream.ts";
import type { Exchange } from "../../exchange.ts";
import { HttpError } from "../../http-error.ts";
import { responseKey } from "../../response-cache.ts";
import { readChat, variablesOf } from "./read-request.ts";
import { type Choice, completionOf, type ReplyHead } from "./reply.ts";
import { ChunkWriter } from "./stream.ts";

export async function answerChat(exchange: Exchange): Promise<object | EventStream> {
  const call = await readChat(exchange);
  const { model, tools, sampling, seed, constraint, messages, request: asked } = call;
  const { project } = exchange.caller;
  const { cache, caller } = exchange;
  const { version } = model.policy;
  const repeatable = { keyId: caller.keyId, model: model.name, version, temperature: sampling.temperature };
  const key =
    cache && !asked.stream ? responseKey({ ...repeatable, seed: asked.seed, body: exchange.body }) : undefined;
  const kept = key && cache?.get(key);
  if (kept) return new Response(kept, { headers: { "content-type": "application/json", "x-stateset-cached": "1" } });

  const known = model.chains.find(messages, project);
  const options = { tools, sampling, seed, constraint, ...variablesOf(asked) };
  const session = openSession(model.agent, options, known);
  const prompt = await session.prepare(messages, { seed, signal: exchange.signal });
  if (!prompt || prompt.room < 1) throw tooLong(model.policy.model.contextLength, prompt);
  exchange.chain = prompt.place !== "again" && prompt.place.kind === "restart" ? "started" : "continued";

  const head: ReplyHead = {
    id: `chatcmpl-${randomBytes(12).toString("hex")}`,
    created: Math.floor(Date.now() / 1000),
    model: model.name,
    system_fingerprint: version,
  };
  const whole = model.agent.changesReplies;
  const writer = asked.stream
    ? new ChunkWriter(exchange.stream(), head, call, { whole, promptTokens: prompt.tokens })
    : undefined;
  const one = {
    ...{ tokens: prompt.tokens, seed, constraint },
    sampling: { ...sampling, maxTokens: Math.min(sampling.maxTokens, prompt.room) },
    ...(call.topLogprobs !== undefined && { topLogprobs: call.topLogprobs }),
  };
  const request = {
    ...{ model, requests: repeated(call.n, one), priority: asked.priority, deadlineMs: asked.deadline },
    ...(writer && { onToken: (token: SampleToken) => writer.push(token) }),
  };
  const taken = async (samples: readonly Sample[]): Promise<Choice[]> => {
    const choices: Choice[] = [];
    for (const sample of samples) {
      const { turn, chain } = await session.take(prompt, sample, { fork: true, signal: exchange.signal });
      model.chains.keep(messages, turn, chain, project);
      choices.push({ sample, turn });
    }
    return choices;
  };
  const sample = await takeTurn(request, exchange);
  if (!writer) {
    const samples = await sample();
    const own = { ...head, system_fingerprint: samples[0]!.version };
    const reply = completionOf(own, await taken(samples), call, exchange.measure, prompt.tokens);
    if (key) cache?.set(key, JSON.stringify(reply));
    return reply;
  }

  writer.begin();
  const stream = exchange.stream();
  sample()
    .then(taken)
    .then((choices) => writer.finish(choices, exchange.measure))
    .catch((error: unknown) => stream.fail(exchange.failed(error)));
  return stream;
}

function tooLong(contextLength: number, prompt: Prompt | undefined): HttpError {
  const asked = prompt ? `the messages and tools take ${prompt.tokens.length}` : "the messages take more";
  return new HttpError(400, `The context of this model is ${contextLength} tokens, and ${asked}.`, {
    code: "context_length_exceeded",
    param: "messages",
  });
}
