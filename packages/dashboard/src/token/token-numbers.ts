/** All that is known of one token, as lines of a panel. */
import { float32 } from "./float32.ts";
import { differenceOf, type QuantityName } from "./quantity.ts";
import type { Spelling } from "./spelling.ts";
import { chainOf, numberOf, type Tokens, whyItLearns } from "./tokens.ts";

export interface Line {
  name: string;
  text: string;
  /** Colours may show it. */
  quantity?: QuantityName;
  /** It is no number. */
  words?: true;
}

const missing = "–";
const printed = (value: number) => (Number.isNaN(value) ? missing : float32(value).replace(/^-/, "−"));

export function linesOf(tokens: Tokens, spelling: Spelling, token: number, leftOut: string | null): Line[] {
  const number = (name: Parameters<typeof numberOf>[1]) => numberOf(tokens, name, token);
  const logprob = number("logprobs");
  const chain = chainOf(tokens, token);
  const bytes = spelling.bytes(token);
  const turn = tokens.turn[token]!;
  return [
    { name: "id", text: String(tokens.ids[token]) },
    ...(bytes ? [{ name: "bytes", text: `${bytes.hex} of ${bytes.part}` }] : []),
    { name: "log-prob", text: printed(logprob), quantity: "logprob" as const },
    // Of a float32 there are seven digits to tell; e to its power has no more.
    { name: "probability", text: Number.isNaN(logprob) ? missing : String(Number(Math.exp(logprob).toPrecision(7))) },
    { name: "ratio", text: printed(number("ratio")), quantity: "ratio" as const },
    { name: "advantage", text: printed(number("advantage")), quantity: "advantage" as const },
    { name: "entropy", text: printed(number("entropy")), quantity: "entropy" as const },
    { name: "reference", text: printed(number("reference")) },
    { name: "difference", text: printed(differenceOf(tokens, token)), quantity: "difference" as const },
    { name: "value", text: printed(number("value")), quantity: "value" as const },
    { name: "sampler log-prob", text: printed(number("samplerLogprobs")) },
    { name: "clipped", text: tokens.clipped ? (tokens.clipped[token] === 1 ? "yes" : "no") : missing },
    { name: "turn", text: turn < 0 ? missing : String(turn) },
    {
      name: "chain",
      text: `${chain + 1} of ${tokens.chains.length}, token ${token - (tokens.chains[chain]?.from ?? 0)}`,
    },
    { name: "learns", text: whyItLearns(tokens, token, leftOut), words: true as const },
  ];
}
