/**
 * The conversations of a step: trajectories/step-000123.jsonl, one ConversationRecord a line, and where tokens are kept,
 * step-000123.bin beside it (token-file.ts). The same step gives the same bytes.
 */
import { cpSync, existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parseRecord } from "../conversation/parse-record.ts";
import { parseJsonLine } from "../conversation/read-entries.ts";
import type { ChainRecord, ConversationRecord } from "../conversation/record.ts";
import type { TokenChain } from "../conversation/trajectory.ts";
import { writeFileAtomic } from "../durable.ts";
import { StatesetError } from "../error.ts";
import type { LearntNumbers } from "../learning/learnt-tokens.ts";
import { readPlainText } from "../plain-file.ts";
import { pathIn, stepName, stepOf } from "./layout.ts";
import {
  type ColumnName,
  type Columns,
  columnNames,
  damaged,
  encodeTokens,
  readTokens,
  tokenColumns,
} from "./token-file.ts";

/** Tokens of which something is learnt; what was not sampled has no turns, and log-probs (NaN in the file) only where a pass was asked. */
export type RecordedChain = Pick<TokenChain, "tokens" | "learn"> &
  Partial<Pick<TokenChain, "logprobs" | "turn" | "samplerLogprobs">>;

/** A conversation as it goes to the disk. */
export interface RecordedConversation {
  record: ConversationRecord;
  /** Those of the record, in its order. */
  chains: readonly RecordedChain[];
  learnt?: LearntNumbers | undefined;
}

/** The numbers of one chain. What is known after the update is one number a learn token: NaN where it is not known. */
export interface ChainTokens extends Required<LearntNumbers> {
  tokens: Int32Array;
  logprobs: Float32Array;
  learn: Uint8Array;
  turn: Int32Array;
  samplerLogprobs?: Float32Array;
}

export interface TrajectoryRecord extends ConversationRecord {
  /** `columns` where the tokens were kept. */
  chains: (ChainRecord & { columns?: ChainTokens })[];
}

const learntNames = columnNames.filter((name) => tokenColumns[name].per === "learn") as (keyof LearntNumbers)[];

export function writeTrajectories(
  dir: string,
  step: number,
  conversations: readonly RecordedConversation[],
  options: { tokens: boolean },
): void {
  const { lines, tokens } = encodeStep(conversations, options);
  const { jsonl, bin } = trajectoryFiles(dir, step);
  // The tokens first: whoever sees the records finds theirs.
  if (tokens) writeFileAtomic(bin, tokens);
  else rmSync(bin, { force: true });
  writeFileAtomic(jsonl, lines);
}

/** What the two files of a step hold. */
export function encodeStep(
  conversations: readonly RecordedConversation[],
  options: { tokens: boolean },
): { lines: string; tokens: Uint8Array | undefined } {
  if (!options.tokens) return { lines: linesOf(conversations.map(({ record }) => record)), tokens: undefined };
  const counts = { tokens: 0, learnTokens: 0 };
  const present = new Set<ColumnName>();
  const placed = conversations.map(({ record, chains, learnt = {} }): ConversationRecord => {
    const from = counts.learnTokens;
    const places = record.chains.map((chain, c) => {
      const place = { ...chain, offset: counts.tokens, learnOffset: counts.learnTokens };
      counts.tokens += chain.length;
      counts.learnTokens += chain.learnLength;
      if (chains[c]!.samplerLogprobs) present.add("samplerLogprobs");
      return place;
    });
    for (const [name, { length }] of Object.entries(learnt) as [keyof LearntNumbers, Float32Array][]) {
      present.add(name);
      const expected = counts.learnTokens - from;
      if (length === expected) continue;
      const message = `The conversation ${record.id} has ${expected} tokens to learn from, and ${length} numbers "${name}".`;
      throw new StatesetError("INVALID_DATA", message);
    }
    return { ...record, chains: places };
  });
  const tokens = encodeTokens(counts, present, (columns) => {
    conversations.forEach((conversation, i) => {
      fillColumns(columns, conversation, placed[i]!.chains);
    });
  });
  return { lines: linesOf(placed), tokens };
}

function fillColumns(
  columns: Columns,
  { chains, learnt = {} }: RecordedConversation,
  places: readonly ChainRecord[],
): void {
  chains.forEach(({ tokens, learn, logprobs, turn, samplerLogprobs }, c) => {
    const { offset, length } = places[c] as Required<ChainRecord>;
    columns.tokens!.set(tokens, offset);
    columns.learn!.set(learn, offset);
    if (logprobs) columns.logprobs!.set(logprobs, offset);
    else columns.logprobs!.fill(Number.NaN, offset, offset + length);
    if (turn) columns.turn!.set(turn, offset);
    else columns.turn!.fill(-1, offset, offset + length);
    if (samplerLogprobs) columns.samplerLogprobs!.set(samplerLogprobs, offset);
  });
  const from = places[0]?.learnOffset;
  if (from === undefined) return;
  for (const name of learntNames) if (learnt[name]) columns[name]!.set(learnt[name], from);
}

function linesOf(records: readonly ConversationRecord[]): string {
  return records.map((record) => `${JSON.stringify(record)}\n`).join("");
}

/** The steps of a run whose conversations were kept. */
export function trajectorySteps(dir: string): number[] {
  const folder = pathIn(dir, "trajectories");
  if (!existsSync(folder)) return [];
  const steps = readdirSync(folder).flatMap((name) => stepOf(name, ".jsonl") ?? []);
  return steps.sort((a, b) => a - b);
}

/**
 * The conversations of a step, with the numbers of their tokens where these were kept (`trajectories.tokens`).
 *
 * @example
 * for (const { reward, chains } of readTrajectories("runs/polite", 1)) console.log(reward?.score, chains[0]?.columns?.advantage);
 */
export function readTrajectories(dir: string, step: number): TrajectoryRecord[] {
  const { jsonl, bin } = trajectoryFiles(dir, step);
  if (!existsSync(jsonl)) {
    const steps = trajectorySteps(dir);
    throw new StatesetError("INVALID_DATA", `${dir} holds no conversations of step ${step}.`, {
      hint:
        steps.length === 0
          ? "The run kept none (trajectories.every)."
          : `There are those of steps ${steps.join(", ")}.`,
    });
  }
  const records = readPlainText(jsonl)
    .split("\n")
    .flatMap((text, i) => {
      if (text === "") return [];
      const where = `${jsonl}, line ${i + 1}`;
      return [parseRecord(parseJsonLine(text, where), where, String(i + 1))];
    });
  const wanted = records.some(({ chains }) => chains.some(({ offset }) => offset !== undefined));
  const file = wanted ? readTokens(bin) : undefined;
  if (!file) return records;
  const chains = records.flatMap((record) => record.chains);
  const sum = (of: (chain: ChainRecord) => number) => chains.reduce((total, chain) => total + of(chain), 0);
  if (sum(({ length }) => length) !== file.tokens || sum(({ learnLength }) => learnLength) !== file.learnTokens) {
    throw damaged(bin, "it is not that of the conversations beside it");
  }
  return records.map((record) => ({
    ...record,
    chains: record.chains.map((chain) => ({ ...chain, columns: columnsOf(chain, file.columns, bin) })),
  }));
}

function columnsOf(chain: ChainRecord, columns: Columns, path: string): ChainTokens {
  const { offset = -1, length, learnOffset = -1, learnLength } = chain;
  const whole = columns.tokens!.length;
  const learnt = learntNames.map((name) => {
    const column = columns[name];
    const own = column?.subarray(learnOffset, learnOffset + learnLength);
    return [name, own ?? new Float32Array(learnLength).fill(Number.NaN)] as const;
  });
  if (
    offset < 0 ||
    learnOffset < 0 ||
    offset + length > whole ||
    learnt.some(([, { length: n }]) => n !== learnLength)
  ) {
    throw damaged(path, "the conversations beside it name tokens that it does not hold");
  }
  const part = <T extends { subarray(from: number, to: number): T }>(column: T) =>
    column.subarray(offset, offset + length);
  const sampler = columns.samplerLogprobs && part(columns.samplerLogprobs);
  return {
    tokens: part(columns.tokens!),
    logprobs: part(columns.logprobs!),
    learn: part(columns.learn!),
    turn: part(columns.turn!),
    // NaN in all of a chain whose sampler had no log-probs of its own.
    ...(sampler && !Number.isNaN(sampler[0]) && { samplerLogprobs: sampler }),
    ...(Object.fromEntries(learnt) as Required<LearntNumbers>),
  };
}

/** Those of steps that a run takes back: it writes them anew. */
export function removeLater(dir: string, step: number): void {
  for (const later of trajectorySteps(dir).filter((one) => one > step)) {
    const { jsonl, bin } = trajectoryFiles(dir, later);
    rmSync(jsonl, { force: true });
    rmSync(bin, { force: true });
  }
}

/** Those of the steps up to one, for a run that is split off after it. */
export function copyTrajectories(from: string, to: string, step: number): void {
  for (const earlier of trajectorySteps(from).filter((one) => one <= step)) {
    const [source, target] = [trajectoryFiles(from, earlier), trajectoryFiles(to, earlier)];
    cpSync(source.jsonl, target.jsonl);
    if (existsSync(source.bin)) cpSync(source.bin, target.bin);
  }
}

/** Of one step: its conversations, and their tokens. */
export function trajectoryFiles(dir: string, step: number): { jsonl: string; bin: string } {
  const base = join(pathIn(dir, "trajectories"), stepName(step));
  return { jsonl: `${base}.jsonl`, bin: `${base}.bin` };
}
