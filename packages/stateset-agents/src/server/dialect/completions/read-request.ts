/** What a request of /v1/completions asks for. */
import { type Sampling, shortened } from "../../../policy/policy.ts";
import { readFields } from "../../read-fields.ts";
import type { ServedModel } from "../../served-model.ts";
import { type GivenText, readTexts, requireFits } from "../foreign-tokens.ts";
import { refused } from "../refused.ts";
import { requireLengths, samplingOf, seedOfField } from "../sampling-fields.ts";
import { type CompletionRequest, completionRequestSchema, ignoredCompletionFields, mostChoices } from "./schema.ts";

export interface CompletionCall {
  model: ServedModel;
  request: CompletionRequest;
  prompts: GivenText[];
  sampling: Sampling;
  seed: number;
  /** Replies to each prompt. */
  n: number;
  /** Likeliest tokens that are told of each position; undefined: no log-probs are asked for. */
  logprobs: number | undefined;
  /** The prompt's own log-probs are asked for. */
  scored: boolean;
}

/** OpenAI's; an agent's own is meant for the replies of conversations. */
const defaultMaxTokens = 16;

export async function readCompletion(
  body: unknown,
  ignored: Set<string>,
  modelOf: (name: string) => ServedModel,
): Promise<CompletionCall> {
  const request = readFields(completionRequestSchema, body, { known: ignoredCompletionFields, ignored });
  const { n = 1, max_tokens: maxTokens = defaultMaxTokens, echo = false, logprobs, best_of: best } = request;
  if (request.suffix !== undefined) throw refused("suffix", "cannot be kept to: models here write what comes next.");
  if (best !== undefined && best !== n) throw refused("best_of", `must equal "n", which is ${n}.`);
  if (request.stream_options !== undefined && !request.stream) {
    throw refused("stream_options", 'is for streams: set "stream" to true.');
  }
  const scored = echo && logprobs !== undefined;
  if (maxTokens === 0 && !scored) throw refused("max_tokens", 'may be 0 only with "echo" and "logprobs".');
  requireLengths(request, maxTokens);
  const model = modelOf(request.model);
  const { agent, policy } = model;
  const { contextLength, vocabSize } = policy.model;
  if (scored && !policy.capabilities.promptLogprobs) {
    throw refused("echo", `cannot be scored by ${model.name}: its engine does not tell a prompt's log-probs.`);
  }
  const bos = request.add_special_tokens ?? true;
  const prompts = await readTexts(request.prompt, { policy, bos, param: "prompt" });
  if (prompts.length * n > mostChoices) {
    throw refused("n", `asks for ${prompts.length * n} replies in all; ${mostChoices} are the most.`);
  }
  for (const { tokens } of prompts) {
    if (tokens.length === 0) throw refused("prompt", "is empty.");
    requireFits(tokens.length, contextLength, { room: Math.min(1, maxTokens), param: "prompt" });
  }
  const own = samplingOf(request, agent.sampling, vocabSize);
  // What is only scored is scored by the model as it is, not as its agent would speak.
  const temperature = maxTokens === 0 ? (request.temperature ?? 1) : own.temperature;
  return {
    ...{ model, request, prompts, n, logprobs, scored },
    sampling: shortened({ ...own, temperature, maxTokens }, maxTokens),
    seed: seedOfField(request.seed),
  };
}
