import type { z } from "zod";
import { type ErrorCode, StatesetError } from "./error.ts";
import { didYouMean } from "./suggest.ts";

/** The longest time a timer of Node can wait; a longer one would fire at once. */
export const longestTimerMs = 2 ** 31 - 1;

/** What is wrong with a value: a key its schema does not know, or a part that is not as it should be. */
export interface OptionProblem {
  /** Where, from the value on; of a key that is unknown, where it stands. */
  path: string[];
  unknown?: string;
  /** Of a part: what is wrong with it, or the word that is none of the valid ones. */
  text: string;
  hint?: string;
}

/** Checks a value against a strict zod schema. */
export function checkOptions<T extends z.ZodType>(
  schema: T,
  value: unknown,
): { value: z.output<T>; problem?: never } | { problem: OptionProblem } {
  const result = schema.safeParse(value);
  if (result.success) return { value: result.data };
  const issue = plainest(firstOf(result.error.issues, value), value);
  const path = issue.path.map(String);
  if (issue.code === "unrecognized_keys") {
    const unknown = issue.keys[0]!;
    return { problem: { path, unknown, text: "", hint: didYouMean(unknown, optionPaths(schema, issue.path)) } };
  }
  if (issue.code === "invalid_value" && typeof valueAt(value, issue.path) === "string") {
    const given = valueAt(value, issue.path) as string;
    // Where words are one way to say it and an object the other, both are valid.
    const keys = optionPaths(schema, issue.path).filter((key) => !key.includes("."));
    const forms = keys.length > 0 ? [`{ ${keys.join(", ")} }`] : [];
    const hint = didYouMean(given, [...issue.values.map(String), ...forms]);
    return { problem: { path, text: `"${given}"`, hint } };
  }
  // Why a key is none stands inside.
  const inner = issue.code === "invalid_key" ? issue.issues[0] : undefined;
  return { problem: { path, text: (inner ?? issue).message } };
}

/**
 * Validates an options object against a strict zod schema.
 * Unknown keys are named, with the nearest valid one; `where` says whose options they are ("train()", "agent.lora", …).
 */
export function parseOptions<T extends z.ZodType>(
  schema: T,
  value: unknown,
  where: string,
  code: ErrorCode = "INVALID_OPTION",
): z.output<T> {
  const { problem, ...checked } = checkOptions(schema, value);
  if (!problem) return (checked as { value: z.output<T> }).value;
  const path = [where, ...problem.path].join(".");
  const message =
    problem.unknown === undefined
      ? `Invalid value for ${path}: ${problem.text}.`
      : `Unknown option "${problem.unknown}" in ${path}.`;
  throw new StatesetError(code, message, problem.hint === undefined ? {} : { hint: problem.hint });
}

/** Options over others, two levels deep; what is undefined counts as left out. */
export function mergeDefined(
  over: Readonly<Record<string, unknown>>,
  under: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const merged: Record<string, unknown> = { ...under };
  for (const [key, value] of Object.entries(over)) {
    if (value === undefined) continue;
    const below = merged[key];
    merged[key] = isPlain(value) && isPlain(below) ? { ...below, ...value } : value;
  }
  return merged;
}

/** Some of the options, those that are set. */
export function pick<T extends object, K extends keyof T>(from: T, keys: readonly K[]): Pick<T, K> {
  return Object.fromEntries(keys.flatMap((key) => (from[key] === undefined ? [] : [[key, from[key]]]))) as Pick<T, K>;
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

type Issue = z.core.$ZodIssue;

/** Of an object that lacks a key and has one that is not known, the second is the mistake: it was meant for the first, or says more. */
function firstOf(issues: readonly Issue[], value: unknown): Issue {
  const first = issues[0]!;
  if (first.path.length === 0 || valueAt(value, first.path) !== undefined) return first;
  const place = JSON.stringify(first.path.slice(0, -1));
  return issues.find((one) => one.code === "unrecognized_keys" && JSON.stringify(one.path) === place) ?? first;
}

/** What is wrong with the alternative that was meant: of a word the words that are allowed, of an object what is wrong inside it. */
function plainest(issue: Issue, value: unknown): Issue {
  if (issue.code !== "invalid_union") return issue;
  const found = valueAt(value, issue.path);
  const inner = issue.errors.flat().map((one) => ({ ...one, path: [...issue.path, ...one.path] }) as Issue);
  const words = inner.filter((one) => one.code === "invalid_value" && one.path.length === issue.path.length);
  if (typeof found === "string" && words.length > 0) {
    return { ...words[0]!, values: words.flatMap((one) => (one.code === "invalid_value" ? one.values : [])) } as Issue;
  }
  if (typeof found === "object" && found !== null) {
    const meant = inner.filter((one) => one.code === "unrecognized_keys" || one.path.length > issue.path.length);
    if (meant.length > 0) return plainest(firstOf(meant, value), value);
  }
  return issue;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((inner, key) => (inner as Record<PropertyKey, unknown> | undefined)?.[key], value);
}

/** The options a schema has at a path, those of its groups as `group.option`; looks through optionals, defaults, arrays and unions. */
export function optionPaths(schema: unknown, path: readonly PropertyKey[] = []): string[] {
  const def = (schema as { _zod?: { def: Record<string, unknown> } } | undefined)?._zod?.def;
  if (!def) return [];
  const [step, ...rest] = path;
  switch (def.type) {
    case "object": {
      const shape = def.shape as Record<string, unknown>;
      if (step !== undefined) return optionPaths(shape[String(step)], rest);
      return Object.entries(shape).flatMap(([key, inner]) => [
        key,
        ...optionPaths(inner).map((option) => `${key}.${option}`),
      ]);
    }
    case "array":
      return step === undefined ? [] : optionPaths(def.element, rest);
    case "union":
      return [...new Set((def.options as unknown[]).flatMap((option) => optionPaths(option, path)))];
    default:
      return def.innerType || def.in ? optionPaths(def.innerType ?? def.in, path) : [];
  }
}
