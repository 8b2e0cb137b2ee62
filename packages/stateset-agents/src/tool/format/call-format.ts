/** How models write that they want a tool called. One file a format; choose-format.ts finds the one of a chat template. */
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import { StatesetError } from "../../error.ts";
import type { CallGrammar } from "../constrain/call-grammar.ts";

export interface CallFormat {
  readonly name: CallFormatName;
  /** What it begins calls with, where that is a text of its own: special tokens among these are read from what was sampled. */
  readonly markers: readonly string[];
  /** Takes a reply apart: `text` as it was sampled, special tokens printed, without what ends a reply. */
  parse(text: string): ParsedReply;
  /** How much of a reply that is still being sampled is certainly words, not part of a call. */
  certain(text: string): number;
  /** Names of tools that it can write. Left out: all that a tool may have. */
  readonly names?: RegExp;
  /** Calls as a model of this format writes them. */
  print(calls: readonly WrittenCall[]): string;
}

/** A format as its file has it. */
export interface HeldFormat extends CallFormat {
  /** What keeps calls valid while they are sampled. */
  grammar: CallGrammar;
  /** Of formats whose calls are JSON: finds one after another in a reply that grows. */
  findCalls?(): FindCall;
}

/** Where the next call's JSON object begins, looking from `at` on; undefined: that cannot be told yet. */
export type FindCall = (text: string, at: number) => FoundCall | undefined;

export interface FoundCall {
  at: number;
  /** Where it stands before the object, which is then the arguments alone. */
  name?: string;
}

/** The first character that is none of `between`, if it opens an object. */
export function objectAfter(text: string, at: number, between: RegExp): FoundCall | undefined {
  const from = at + between.exec(text.slice(at))![0].length;
  return text[from] === "{" ? { at: from } : undefined;
}

export const callFormatNames = ["hermes", "llama3", "mistral", "json", "pythonic"] as const;
export type CallFormatName = (typeof callFormatNames)[number];

export interface WrittenCall {
  name: string;
  /** JSON text of an object, as the model wrote it. */
  arguments: string;
}

/** What was meant as a call and cannot be read as one. */
export interface UnreadableCall {
  /** Where that can be told. */
  name?: string;
  /** As the model wrote it. */
  text: string;
  problem: string;
}

export interface ParsedReply {
  /** The words before the first call; all of the reply where it holds none. */
  content: string;
  calls: (WrittenCall | UnreadableCall)[];
}

export function isUnreadable(call: WrittenCall | UnreadableCall): call is UnreadableCall {
  return "problem" in call;
}

/** Refuses tools that calls cannot be written to. */
export function requireNames({ names }: Pick<CallFormat, "names">, tools: readonly ToolDefinition[]): void {
  const bad = names && tools.find((tool) => !names.test(tool.function.name));
  if (!bad) return;
  throw new StatesetError("INVALID_OPTION", `The model cannot write calls to "${bad.function.name}" in its format.`, {
    hint: "Give the tool a name of letters, digits and _.",
  });
}

/** Where the first of `markers` stands, or may begin at the end of what there is yet. */
export function beforeMarker(text: string, markers: readonly string[]): number {
  const whole = markers.map((marker) => text.indexOf(marker)).filter((at) => at >= 0);
  if (whole.length > 0) return Math.min(...whole);
  const longest = Math.max(...markers.map(({ length }) => length));
  for (let at = Math.max(0, text.length - longest + 1); at < text.length; at++) {
    if (markers.some((marker) => marker.startsWith(text.slice(at)))) return at;
  }
  return text.length;
}
