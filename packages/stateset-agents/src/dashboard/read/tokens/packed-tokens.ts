/** A conversation token by token, packed for the page. */
import { messageOf } from "../../../error.ts";
import { trajectoryFiles } from "../../../run/trajectories.ts";
import { HttpError } from "../../../server/http-error.ts";
import { encodePacked, type NumberColumn, type TokensHead } from "../../api/index.ts";
import { membersOf, ratioShift } from "../group/member.ts";
import { stringAt } from "../json-file.ts";
import type { Library } from "../library.ts";
import { findConversation } from "../trajectories/one.ts";
import type { RowFacts } from "../trajectories/row-facts.ts";
import { clippedTokens } from "./clip.ts";
import type { ConversationTokens } from "./token-files.ts";

export async function tokensOf(library: Library, text: string): Promise<Uint8Array<ArrayBuffer>> {
  const { key, place, file, row, record } = findConversation(library, text);
  const tokens =
    key.set === "training" ? readTokensOf(library, trajectoryFiles(place.dir, key.step).bin, record) : undefined;
  if (!tokens) throw notRecorded(key.set);
  const config = library.config(place.dir);
  const { spelling, why } = await library.tokenizers.of(place.dir, config);
  const ids = [...new Set(tokens.tokens)];
  const head: TokensHead = {
    chains: record.chains.map(({ length, started, versions }, c) => ({
      from: tokens.starts[c]!,
      length,
      started: typeof started === "string" ? started : null,
      versions: { ...versions },
    })),
    pieces: ids.map((id) => spelling?.piece(id) ?? { id }),
    tokenizer: spelling?.from ?? null,
    why,
  };
  const { algorithm } = config ?? {};
  const shift = () => {
    const isOne = ({ groupId }: RowFacts) => groupId === row.groupId;
    return ratioShift(algorithm, membersOf(library, place.dir, key, file, isOne, []), key.line);
  };
  // The others of its group are read for the one algorithm that asks for them.
  const own = stringAt(algorithm, "algorithm") === "gepo" ? shift() : 0;
  return encodePacked(head, columnsOf(tokens, algorithm, own));
}

function columnsOf(
  tokens: ConversationTokens,
  algorithm: unknown,
  shift: number | undefined,
): Record<string, NumberColumn> {
  const { learnt, starts: _, ...columns } = tokens;
  const { ratio, advantage } = learnt;
  const clipped = ratio && advantage && clippedTokens(algorithm, { ratio, advantage, shift });
  return { ...columns, ...learnt, ...(clipped && { clipped }) };
}

/** A damaged file of tokens is no reason to show nothing: it is named. */
function readTokensOf(
  library: Library,
  path: string,
  record: Parameters<Library["tokenFiles"]["of"]>[1],
): ConversationTokens | undefined {
  try {
    return library.tokenFiles.of(path, record);
  } catch (error) {
    throw new HttpError(409, messageOf(error), { param: "trajectory", code: "tokens_damaged" });
  }
}

function notRecorded(set: string): HttpError {
  const why =
    set === "evaluation"
      ? "Of conversations of evaluations no tokens are kept."
      : "The tokens of this conversation were not recorded. Train with `trajectories: { tokens: true }`.";
  return new HttpError(409, why, { param: "trajectory", code: "no_tokens" });
}
