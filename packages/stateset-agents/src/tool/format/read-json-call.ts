/** Calls that are written as JSON objects with a name and arguments: what most formats hold inside. */
import type { UnreadableCall, WrittenCall } from "./call-format.ts";

/** Where the JSON value that begins at `at` ends; undefined where it does not. Strings may hold anything, also what ends a call. */
export function endOfJson(text: string, at: number): number | undefined {
  let depth = 0;
  for (let i = at; i < text.length; i++) {
    const char = text[i]!;
    if (char === '"') {
      const end = endOfString(text, i);
      if (end === undefined) return undefined;
      i = end - 1;
    } else if (char === "{" || char === "[") depth++;
    else if (char === "}" || char === "]") depth--;
    else continue;
    if (depth <= 0) return i + 1;
  }
  return undefined;
}

function endOfString(text: string, at: number): number | undefined {
  for (let i = at + 1; i < text.length; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === '"') return i + 1;
  }
  return undefined;
}

/** `{"name": …, "arguments": {…}}`, also with `parameters`, or with the arguments as JSON text in a string. */
export function readJsonCall(text: string): WrittenCall | UnreadableCall {
  const parsed = parseObject(text);
  if (typeof parsed === "string") return unreadable(text, parsed);
  const members = membersOf(text.trim());
  const names = members.filter(({ key }) => key === "name");
  const given = members.filter(({ key }) => key === "arguments" || key === "parameters");
  // Which of two would run must not depend on who reads it.
  if (names.length > 1 || given.length > 1) return unreadable(text, "its name or its arguments are there twice");
  const { name } = parsed;
  if (typeof name !== "string" || name === "") return unreadable(text, "it has no name");
  const [written] = given;
  if (!written) return { name, arguments: "{}" };
  const value = parsed[written.key];
  if (value === null) return { name, arguments: "{}" };
  const args = typeof value === "string" ? value : written.text;
  const inner = parseObject(args);
  return typeof inner === "string"
    ? unreadable(text, `of its arguments: ${inner}`, name)
    : { name, arguments: args.trim() };
}

/** Calls behind one another, with `between` between them, up to the end of the text or to `last`. */
export function readJsonCalls(text: string, between: RegExp, last?: string): (WrittenCall | UnreadableCall)[] {
  const calls: (WrittenCall | UnreadableCall)[] = [];
  let at = 0;
  for (;;) {
    at += between.exec(text.slice(at))![0].length;
    if (at >= text.length) {
      if (last !== undefined) calls.push(unreadable(text, `there is no "${last}" at its end`));
      return calls;
    }
    if (text[at] === last) return calls;
    const end = text[at] === "{" ? endOfJson(text, at) : undefined;
    if (end === undefined) {
      calls.push(unreadable(text.slice(at), text[at] === "{" ? "it ends in the middle" : "it is no JSON object"));
      return calls;
    }
    calls.push(readJsonCall(text.slice(at, end)));
    at = end;
  }
}

/** Whether an object has the form of a call, so that it is not somebody's data. */
export function looksLikeCall(text: string): boolean {
  return /^\s*\{\s*"(?:name|arguments|parameters)"\s*:/.test(text);
}

export function unreadable(text: string, problem: string, name = nameIn(text)): UnreadableCall {
  return { ...(name !== undefined && { name }), text, problem };
}

function nameIn(text: string): string | undefined {
  return /"name"\s*:\s*"([A-Za-z0-9_.-]{1,64})"/.exec(text)?.[1];
}

/** The object, or what is wrong. */
function parseObject(text: string): Record<string, unknown> | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `it is no JSON (${(error as Error).message})`;
  }
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : "it is no JSON object";
}

/** The members of valid JSON text of an object, with their values as they are written. */
function membersOf(text: string): { key: string; text: string }[] {
  const members: { key: string; text: string }[] = [];
  let at = 1;
  while (at < text.length) {
    const start = text.indexOf('"', at);
    if (start < 0) break;
    const keyEnd = endOfString(text, start)!;
    const from = text.indexOf(":", keyEnd) + 1;
    const end = endOfValue(text, from);
    members.push({ key: JSON.parse(text.slice(start, keyEnd)) as string, text: text.slice(from, end).trim() });
    at = end + 1;
  }
  return members;
}

/** Of a member's value in valid JSON text: the comma or brace after it. */
function endOfValue(text: string, from: number): number {
  const first = from + /^\s*/.exec(text.slice(from))![0].length;
  if (text[first] === '"') return skipSpace(text, endOfString(text, first)!);
  if (text[first] === "{" || text[first] === "[") return skipSpace(text, endOfJson(text, first)!);
  return first + text.slice(first).search(/[,}]/);
}

function skipSpace(text: string, at: number): number {
  return at + /^\s*/.exec(text.slice(at))![0].length;
}
