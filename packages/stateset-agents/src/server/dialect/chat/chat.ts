/** POST /v1/chat/completions. */
import { randomBytes } from "node:crypto";
import { isAbort } from "../../../abort.ts";
import { type Sample, type SampleToken, shortened, type Version } from "../../../policy/policy.ts";
import { repeated, takeTurn } from "../../draw.ts";
import type { EventStream } from "../../event-stream.ts";
import type { Exchange } from "../../exchange.ts";
import { responseKey } from "../../response-cache.ts";
import { type ChatBook, servedBook } from "./book.ts";
import { readChat } from "./read-request.ts";
import { type Choice, completionOf, type ReplyHead } from "./reply.ts";
import { ChunkWriter } from "./stream.ts";

export async function answerChat(exchange: Exchange, book: ChatBook = servedBook): Promise<object | EventStream> {
  const call = await readChat(exchange);
  const { model, constraint, request: asked } = call;
  const { cache, caller } = exchange;
  const { version } = model.policy;
  const repeatable = { keyId: caller.keyId, model: model.name, version, temperature: call.sampling.temperature };
  const key =
    cache && !asked.stream ? responseKey({ ...repeatable, seed: asked.seed, body: exchange.body }) : undefined;
  const kept = key && cache?.get(key);
  if (kept) return new Response(kept, { headers: { "content-type": "application/json", "x-stateset-cached": "1" } });

  const opened = await book.open(call, exchange);
  const { session, prompt, sampling, seed, samplerLogprobs, keepActivations } = opened;
  exchange.chain = prompt.place !== "again" && prompt.place.kind === "restart" ? "started" : "continued";

  const head: ReplyHead = {
    id: `chatcmpl-${randomBytes(12).toString("hex")}`,
    created: Math.floor(Date.now() / 1000),
    model: model.name,
  };
  const whole = model.agent.changesReplies;
  const writer = asked.stream
    ? new ChunkWriter(exchange.stream(), head, call, { whole, promptTokens: prompt.tokens })
    : undefined;
  const one = {
    ...{ tokens: prompt.tokens, seed, constraint, samplerLogprobs, keepActivations },
    sampling: shortened(sampling, prompt.room),
    ...(call.topLogprobs !== undefined && { topLogprobs: call.topLogprobs }),
  };
  const request = {
    ...{ model, requests: repeated(call.n, one), priority: asked.priority, deadlineMs: asked.deadline },
    ...(writer && {
      onBegin: (answering: Version) => writer.begin(answering),
      onToken: (token: SampleToken) => writer.push(token),
    }),
    onBroken: (samples: readonly Sample[]) => opened.broken?.(samples),
  };
  const taken = async (samples: readonly Sample[]): Promise<Choice[]> => {
    const choices: Choice[] = [];
    for (const [i, sample] of samples.entries()) {
      const taking = session.take(prompt, sample, { fork: true, signal: exchange.signal });
      const { turn, chain } = await taking.catch((error: unknown) => {
        // Its client left when it was whole and nobody had been told.
        if (isAbort(error)) opened.broken?.(samples.slice(i));
        throw error;
      });
      opened.keep({ sample, turn }, chain);
      choices.push({ sample, turn });
    }
    return choices;
  };
  const sample = await takeTurn(request, exchange);
  const drawn = sample().then(taken);
  opened.drawing?.(drawn);
  if (!writer) {
    const choices = await drawn;
    const reply = completionOf(head, choices, call, exchange.measure, prompt.tokens);
    // Other weights may have been loaded since it was asked for.
    if (key && reply.system_fingerprint === version) cache?.set(key, JSON.stringify(reply));
    return reply;
  }

  const stream = exchange.stream();
  drawn
    .then((choices) => writer.finish(choices, exchange.measure))
    .catch((error: unknown) => stream.fail(exchange.failed(error)));
  return stream;
}
