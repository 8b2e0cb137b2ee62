import { StatesetError } from "../../error.ts";
import type { Policy, SamplerStats } from "../policy.ts";
import { type Drawer, type Drawn, type DrawnExtras, type DrawRequest, sampleReplies } from "../sample-replies.ts";
import { malformed, type Reply } from "./reply.ts";
import type { TorchCore } from "./torch-core.ts";

/** Replies, and what became of all of them so far. */
export function createSamples(core: TorchCore): Pick<Policy, "sample" | "stats"> & { beat(): void } {
  const { tokenizer, maxWaiting } = core.parts;
  const done = { promptTokens: 0, cachedTokens: 0, sampledTokens: 0 };
  let [inFlight, cacheBytes] = [0, 0];
  const slots = () => core.info.slots * core.link.hello.world;

  const draw: Drawer["draw"] = (request, take) => {
    refuseMissing(request);
    if (maxWaiting !== undefined && inFlight >= slots() + maxWaiting) {
      throw new StatesetError("BUSY", `${inFlight} requests are running or waiting; at most ${maxWaiting} may wait.`);
    }
    let told = 0;
    const tell = (drawn: Pick<Drawn, "tokens" | "logprobs"> & DrawnExtras, from: number) => {
      for (let i = from; i < drawn.tokens.length; i++) take!(drawn.tokens[i]!, drawn.logprobs[i]!, extrasAt(drawn, i));
      told += drawn.tokens.length - from;
    };
    const { connection } = core.link;
    const onEvent = take && ((event: Reply) => tell(tokensOf(event), 0));
    const answer = core.call(
      "sample",
      optionsOf(request, core.limits, take !== undefined),
      { tokens: request.tokens },
      onEvent,
    );
    inFlight++;
    const reply = answer
      .then((final): Drawn => {
        const drawn = drawnOf(final);
        done.promptTokens += request.tokens.length;
        done.cachedTokens += drawn.cached;
        done.sampledTokens += drawn.tokens.length;
        // The last tokens may come with the end alone.
        if (take) tell(drawn, Math.min(told, drawn.tokens.length));
        return drawn;
      })
      .catch((error: unknown): Drawn => {
        if (StatesetError.isInstance(error) && error.code === "ABORTED") return neverBegun(core.countNow);
        throw error;
      })
      .finally(() => inFlight--);
    return { reply, cancel: () => connection.tell("cancel", { target: answer.id }) };
  };

  const drawer = (): Drawer => ({
    ...core.limits,
    tokenizer,
    draw,
    versionAt: (count) => (count === undefined ? core.names.now : core.names.at(count)),
  });

  return {
    sample: (requests, options) => core.run(() => sampleReplies(drawer(), requests, options)),
    stats: (): SamplerStats => ({
      running: Math.min(inFlight, slots()),
      waiting: Math.max(0, inFlight - slots()),
      slots: slots(),
      cacheBytes,
      ...done,
      // Weights change between replies alone.
      versions: 1,
      ...(core.link.connection.lost && { failed: true }),
    }),
    beat() {
      const take = (reply: Reply) => {
        cacheBytes = reply.count("cacheBytes");
      };
      core.call("stats").then(take, () => {});
    },
  };
}

function refuseMissing({ constraint, promptLogprobs }: DrawRequest): void {
  const what = constraint
    ? "constrain replies"
    : promptLogprobs === undefined
      ? undefined
      : "give log-probs of prompts";
  if (what === undefined) return;
  throw new StatesetError("INVALID_OPTION", `The torch engine does not ${what}.`, {
    hint: "policy.capabilities says what it does; the embedded engine does all of it.",
  });
}

function optionsOf(request: DrawRequest, { contextLength }: { contextLength: number }, stream: boolean) {
  const { tokens, stopTokens, logitBias, maxTokens, ...others } = request;
  // What it has not, and what would only save time.
  const { constraint: _, promptLogprobs: __, keepActivations: ___, ...rest } = others;
  return {
    presencePenalty: 0,
    frequencyPenalty: 0,
    minTokens: 0,
    topLogprobs: 0,
    samplerLogprobs: false,
    namespace: "",
    ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
    maxTokens: Math.min(maxTokens, contextLength - tokens.length),
    stopTokens: [...stopTokens],
    logitBias: Object.fromEntries(logitBias),
    stream,
  };
}

function tokensOf(reply: Reply): Pick<Drawn, "tokens" | "logprobs"> & DrawnExtras {
  const tokens = reply.ints("tokens");
  const { length } = tokens;
  const samplerLogprobs = reply.optionalFloats("samplerLogprobs", length);
  const topTokens = reply.optionalInts("topTokens");
  if (topTokens && length > 0 && topTokens.length % length !== 0) throw malformed(reply.op, "topTokens");
  const topLogprobs = topTokens && reply.floats("topLogprobs", topTokens.length);
  return {
    tokens,
    logprobs: reply.floats("logprobs", length),
    ...(samplerLogprobs && { samplerLogprobs }),
    ...(topTokens && { topTokens, topLogprobs: topLogprobs! }),
  };
}

function drawnOf(reply: Reply): Drawn {
  const finish = reply.text("finish");
  if (finish !== "stop" && finish !== "length" && finish !== "aborted") throw malformed(reply.op, "finish");
  const { tokens, logprobs, ...extras } = tokensOf(reply);
  return {
    tokens,
    logprobs,
    ...extras,
    finish,
    cached: reply.count("cached"),
    queuedMs: reply.number("queuedMs"),
    version: reply.count("count"),
  };
}

/** What comes with one token. */
function extrasAt(
  { tokens, samplerLogprobs, topTokens, topLogprobs }: DrawnExtras & { tokens: Int32Array },
  at: number,
) {
  const width = topTokens ? topTokens.length / tokens.length : 0;
  const [start, end] = [at * width, (at + 1) * width];
  if (!samplerLogprobs && !topTokens) return undefined;
  return {
    ...(samplerLogprobs && { samplerLogprobs: samplerLogprobs.subarray(at, at + 1) }),
    ...(topTokens && { topTokens: topTokens.subarray(start, end), topLogprobs: topLogprobs!.subarray(start, end) }),
  };
}

/** Cancelled while it waited. */
function neverBegun(version: number): Drawn {
  const [tokens, logprobs] = [new Int32Array(), new Float32Array()];
  return { tokens, logprobs, finish: "aborted", cached: 0, queuedMs: 0, version };
}
