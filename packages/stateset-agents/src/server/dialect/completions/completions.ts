/** POST /v1/completions. */
import { randomBytes } from "node:crypto";
import { type Sample, type SampleToken, shortened, type Version } from "../../../policy/policy.ts";
import { repeated, takeTurn } from "../../draw.ts";
import type { EventStream } from "../../event-stream.ts";
import type { Exchange } from "../../exchange.ts";
import { usageOf } from "../usage.ts";
import { ChoiceWriter, textFinishOf, type WrittenChoice } from "./choice-writer.ts";
import { type CompletionCall, readCompletion } from "./read-request.ts";

export async function answerCompletion(exchange: Exchange): Promise<object | EventStream> {
  const call = await readCompletion(exchange.body, exchange.ignored, (name) => exchange.model(name));
  const { model, prompts, sampling, seed, n, logprobs, scored, request: asked } = call;
  const { contextLength } = model.policy.model;
  const requests = prompts.flatMap(({ tokens }) =>
    // Every prompt with the same seed: among others it is answered as it would be alone.
    repeated(n, {
      ...{ tokens, seed },
      sampling: shortened(sampling, contextLength - tokens.length),
      ...(logprobs !== undefined && { topLogprobs: logprobs }),
      ...(scored && { promptLogprobs: logprobs }),
    }),
  );
  const head = {
    id: `cmpl-${randomBytes(12).toString("hex")}`,
    object: "text_completion",
    created: Math.floor(Date.now() / 1000),
    model: model.name,
  };
  const choices = requests.map((_, i) => new ChoiceWriter(i, call, prompts[Math.floor(i / n)]!));
  const turn = { model, requests, priority: asked.priority, deadlineMs: asked.deadline };
  if (!asked.stream) {
    const samples = await (await takeTurn(turn, exchange))();
    const written = choices.map((choice, i) => choice.whole(samples[i]!));
    return {
      ...head,
      system_fingerprint: samples[0]!.version,
      choices: written,
      usage: usageOf(exchange.measure, samples),
    };
  }

  const stream = exchange.stream();
  const usage = asked.stream_options?.include_usage ? { usage: null } : {};
  let version: Version;
  const chunk = (rest: object) => stream.send(JSON.stringify({ ...head, system_fingerprint: version, ...rest }));
  const send = (choice: WrittenChoice) => chunk({ choices: [choice], ...usage });
  const onBegin = (answering: Version) => {
    version = answering;
  };
  const onToken = (token: SampleToken) => {
    const choice = choices[token.request]!;
    choice.push(token);
    if (choice.waits) send(choice.take());
  };
  // A prompt's log-probs come with the sample; until then nothing that follows them can be told.
  const sample = await takeTurn({ ...turn, onBegin, ...(!scored && { onToken }) }, exchange);
  sample()
    .then((samples) => {
      // Weights that were being loaded when it began may be those that answered.
      version = samples[0]!.version;
      for (const choice of endsOf(choices, samples, call)) send(choice);
      if (asked.stream_options?.include_usage) {
        chunk({ choices: [], usage: usageOf(exchange.measure, samples) });
      }
      stream.send("[DONE]");
      stream.end();
    })
    .catch((error: unknown) => stream.fail(exchange.failed(error)));
  return stream;
}

function endsOf(choices: readonly ChoiceWriter[], samples: readonly Sample[], { scored }: CompletionCall) {
  return choices.map((choice, i) => (scored ? choice.whole(samples[i]!) : choice.take(textFinishOf(samples[i]!))));
}
