/** How calls of a harness are sampled: as the trainer samples, whatever the client asks for. */
import { type Sampling, shortened } from "../policy/policy.ts";
import type { ChatRequest } from "../server/dialect/chat/schema.ts";

/** What would draw from another distribution than the one that learns, by the client's name for it. */
const shaping = {
  temperature: "temperature",
  top_p: "topP",
  top_k: "topK",
  min_p: "minP",
  presence_penalty: "presencePenalty",
  frequency_penalty: "frequencyPenalty",
  repetition_penalty: "repetitionPenalty",
  logit_bias: "logitBias",
  min_tokens: "minTokens",
} as const satisfies Partial<Record<keyof ChatRequest, keyof Sampling>>;

export interface OwnSampling {
  sampling: Sampling;
  /** Fields that asked for something else, by the client's name. */
  overridden: string[];
}

/** A client may ask for less than the trainer's longest reply, even than its shortest, and for texts and tokens to stop at. */
export function ownSampling(request: ChatRequest, asked: Sampling, trainer: Readonly<Sampling>): OwnSampling {
  const { stop, stopTokens } = asked;
  const overridden = Object.entries(shaping)
    .filter(
      ([field, name]) => request[field as keyof typeof shaping] !== undefined && !same(asked[name], trainer[name]),
    )
    .map(([field]) => field);
  if (request.seed !== undefined) overridden.push("seed");
  return { sampling: { ...shortened(trainer, asked.maxTokens), stop, stopTokens }, overridden };
}

/** A bias that is empty, or a penalty of 0, is none. */
function same(asked: unknown, own: unknown): boolean {
  const plain = (value: unknown) =>
    typeof value === "object" ? Object.values(value ?? {}).some(Number) : (value ?? 0);
  return plain(asked) === plain(own);
}

export function overriddenText(fields: readonly string[]): string {
  const names = fields.map((field) => `\`${field}\``).join(", ");
  return `The harness asks for ${names}; replies are sampled as training samples them, since what is drawn otherwise cannot be learnt from. train({ sampling }) says how.`;
}
