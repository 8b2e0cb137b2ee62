/** The tokens of a trajectory as the page holds them: the columns as they came, and what is asked of them. */
import type { Packed, Piece, TokensHead } from "../../../stateset-agents/src/dashboard/api/index.ts";

/** Numbers that some runs have: a number a token, NaN where it is not known. */
export const numberNames = [
  "logprobs",
  "advantage",
  "ratio",
  "entropy",
  "reference",
  "value",
  "samplerLogprobs",
] as const;
export type NumberName = (typeof numberNames)[number];

export interface Tokens {
  count: number;
  ids: Int32Array;
  learn: Uint8Array;
  /** 1 where a gradient could reach it: `learn`, but for the first of a chain, which nothing stands before to predict it from. */
  learns: Uint8Array;
  turn: Int32Array;
  numbers: { readonly [N in NumberName]?: Float32Array };
  clipped: Uint8Array | undefined;
  /** Tokens of data that were not sampled, but scored while they were learnt: theirs is a log-prob too where it is 0. */
  scored: boolean;
  chains: TokensHead["chains"];
  pieces: ReadonlyMap<number, Piece>;
  tokenizer: string | null;
  why: string | null;
}

export function tokensOf({ head, columns }: Packed<TokensHead>): Tokens {
  const ids = columns.tokens as Int32Array;
  const learn = columns.learn as Uint8Array;
  const turn = columns.turn as Int32Array;
  const learns = learn.slice();
  for (const { from, length } of head.chains) if (length > 0) learns[from] = 0;
  const numbers = Object.fromEntries(numberNames.flatMap((name) => (columns[name] ? [[name, columns[name]]] : [])));
  return {
    count: ids.length,
    ids,
    learn,
    learns,
    turn,
    numbers: numbers as Tokens["numbers"],
    clipped: columns.clipped as Uint8Array | undefined,
    scored: learn.some((own, i) => own === 1 && turn[i]! < 0 && (columns.logprobs?.[i] ?? 0) !== 0),
    chains: head.chains,
    pieces: new Map(head.pieces.map((piece) => [piece.id, piece])),
    tokenizer: head.tokenizer,
    why: head.why,
  };
}

export function numberOf({ numbers, turn, learns, scored }: Tokens, name: NumberName, token: number): number {
  const value = numbers[name]?.[token] ?? Number.NaN;
  if (value !== 0 || turn[token]! >= 0) return value;
  // What nobody sampled stands in the file with a log-prob of 0.
  if (name === "logprobs") return scored && learns[token] === 1 ? value : Number.NaN;
  return name === "samplerLogprobs" ? Number.NaN : value;
}

export function chainOf({ chains }: Tokens, token: number): number {
  return chains.findLastIndex(({ from }) => from <= token);
}

/** In words, for whoever asks why a token is grey. */
export function whyItLearns(tokens: Tokens, token: number, leftOut: string | null): string {
  const { turn, learn, learns } = tokens;
  if (learn[token] !== 1) {
    return turn[token]! < 0
      ? "No: it is part of the prompt. The template, the user or a tool wrote it, not the policy."
      : "No: it was sampled, but not chosen by the policy alone (held to a schema, or edited since).";
  }
  if (learns[token] !== 1) return "No: it begins its chain, and nothing stands before it to predict it from.";
  if (leftOut) return `No: nothing was learnt from this conversation (${leftOut}).`;
  const advantage = numberOf(tokens, "advantage", token);
  if (advantage === 0) return "Yes, but its advantage is 0: the gradient leaves it as it is.";
  if (Number.isNaN(advantage)) return "Yes.";
  return advantage > 0 ? "Yes: it is made more likely." : "Yes: it is made less likely.";
}
