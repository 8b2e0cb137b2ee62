/** The numbers of a conversation's tokens, from the file of its step. */
import type { ChainRecord, ConversationRecord } from "../../../conversation/record.ts";
import { Recent } from "../../../recent.ts";
import {
  type ColumnName,
  type Columns,
  damaged,
  readTokens,
  type TokenCounts,
  tokenColumns,
} from "../../../run/token-file.ts";
import { fileStamp } from "../file-stamp.ts";

export type LearntName = "advantage" | "ratio" | "entropy" | "reference" | "value";
const learntNames = ["advantage", "ratio", "entropy", "reference", "value"] as const satisfies LearntName[];

/** All chains one after the other. Of what is known after the update, a number a token: NaN on those that do not learn. */
export interface ConversationTokens {
  tokens: Int32Array<ArrayBuffer>;
  learn: Uint8Array<ArrayBuffer>;
  turn: Int32Array<ArrayBuffer>;
  /** NaN on tokens that nobody sampled. */
  logprobs: Float32Array<ArrayBuffer>;
  samplerLogprobs?: Float32Array<ArrayBuffer>;
  learnt: Partial<Record<LearntName, Float32Array<ArrayBuffer>>>;
  /** Where each chain begins. */
  starts: number[];
}

export class TokenFiles {
  readonly #files = new Recent<{ stamp: string; read: NonNullable<ReturnType<typeof readTokens>> }>(3);

  /** Undefined where the conversation's tokens were not kept. */
  of(path: string, record: ConversationRecord): ConversationTokens | undefined {
    if (!record.chains.some(({ offset }) => offset !== undefined)) return undefined;
    const file = this.#read(path);
    return file && gather(record.chains, file, path);
  }

  #read(path: string): (TokenCounts & { columns: Columns }) | undefined {
    const stamp = fileStamp(path);
    if (stamp === undefined) return undefined;
    const known = this.#files.get(path);
    if (known?.stamp === stamp) return known.read;
    const read = readTokens(path);
    if (read) this.#files.set(path, { stamp, read });
    return read;
  }
}

function gather(
  chains: readonly ChainRecord[],
  { columns, ...counts }: TokenCounts & { columns: Columns },
  path: string,
): ConversationTokens {
  const total = chains.reduce((sum, { length }) => sum + length, 0);
  const own: ConversationTokens = {
    tokens: new Int32Array(total),
    learn: new Uint8Array(total),
    turn: new Int32Array(total),
    logprobs: new Float32Array(total),
    ...(columns.samplerLogprobs && { samplerLogprobs: new Float32Array(total) }),
    learnt: {},
    starts: [],
  };
  for (const name of learntNames) if (columns[name]) own.learnt[name] = new Float32Array(total).fill(Number.NaN);
  let at = 0;
  for (const { offset = -1, length, learnOffset = -1, learnLength } of chains) {
    const fits =
      offset >= 0 &&
      learnOffset >= 0 &&
      offset + length <= counts.tokens &&
      learnOffset + learnLength <= counts.learnTokens;
    if (!fits) throw damaged(path, "the conversations beside it name tokens that it does not hold");
    own.starts.push(at);
    for (const name of Object.keys(tokenColumns) as ColumnName[]) {
      if (tokenColumns[name].per !== "token") continue;
      const [from, to] = [columns[name], own[name as "tokens"]];
      if (from && to) to.set((from as Int32Array).subarray(offset, offset + length), at);
    }
    // The first of a chain has nothing before it to be predicted from, and is no learn token.
    for (let i = 1, n = 0; i < length; i++) {
      if (own.learn[at + i] !== 1) continue;
      if (n < learnLength)
        for (const name of learntNames) if (columns[name]) own.learnt[name]![at + i] = columns[name]![learnOffset + n]!;
      n++;
    }
    at += length;
  }
  // 0 stands for what nobody sampled and nobody scored.
  for (let i = 0; i < total; i++)
    if (own.turn[i]! < 0 && own.learn[i] !== 1 && own.logprobs[i] === 0) own.logprobs[i] = Number.NaN;
  // What the step as a whole has and this conversation has not is not known.
  for (const name of learntNames) if (own.learnt[name]?.every(Number.isNaN)) delete own.learnt[name];
  if (own.samplerLogprobs?.every(Number.isNaN)) delete own.samplerLogprobs;
  return own;
}
