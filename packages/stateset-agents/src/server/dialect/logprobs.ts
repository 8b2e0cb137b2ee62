/** Log-probs of sampled tokens as OpenAI writes them. */
import type { ChatTokenizer, Sample, TokenLogprob } from "../../policy/policy.ts";

export interface WrittenLogprob {
  token: string;
  logprob: number;
  /** Null where the token is a part of a character. */
  bytes: number[] | null;
}

export interface WrittenPosition extends WrittenLogprob {
  top_logprobs: WrittenLogprob[];
}

/** JSON knows no infinity; OpenAI writes this for what is as good as impossible. */
const least = -9999;

export function writeLogprob(
  { token, logprob, topLogprobs = [] }: TokenLogprob & { topLogprobs?: readonly TokenLogprob[] | undefined },
  tokenizer: Pick<ChatTokenizer, "decode">,
): WrittenPosition {
  const write = (one: TokenLogprob): WrittenLogprob => {
    const text = tokenizer.decode([one.token], { skipSpecial: false });
    const whole = !text.includes("\ufffd");
    return { token: text, logprob: Math.max(one.logprob, least), bytes: whole ? [...Buffer.from(text, "utf8")] : null };
  };
  return { ...write({ token, logprob }), top_logprobs: topLogprobs.map(write) };
}

/** Of a whole sample, without what ended it. */
export function writeLogprobs(
  sample: Sample,
  { tokenizer, endTokens }: { tokenizer: Pick<ChatTokenizer, "decode">; endTokens: readonly number[] },
): WrittenPosition[] {
  const { tokens, logprobs, topLogprobs } = sample;
  const ended = endTokens.includes(tokens.at(-1) ?? -1);
  return Array.from(ended ? tokens.subarray(0, -1) : tokens, (token, i) =>
    writeLogprob({ token, logprob: logprobs[i]!, topLogprobs: topLogprobs?.[i] }, tokenizer),
  );
}
