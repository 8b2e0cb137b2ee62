/** What must and must not have happened in a task, said in plain data instead of a check in code. */
import { z } from "zod";
import { sameJson } from "../../conversation/same-json.ts";
import { mentions } from "../mentions.ts";
import type { ReadCheck } from "./check.ts";
import type { FinalTask } from "./final.ts";

/** A call by its tool, and by its arguments where they are named: others beside them do not matter. */
export interface CallPattern {
  tool: string;
  arguments?: Readonly<Record<string, unknown>> | undefined;
}

/** Whole words, case ignored; of a list one is enough. */
export type Phrase = string | readonly string[];

export interface TaskExpectation {
  /** Parts that the final state must have. Lists are compared whole. */
  state?: unknown;
  /** The calls that must have changed the state, and no others: `[]` is "change nothing". */
  writes?: readonly CallPattern[] | undefined;
  /** Calls that must have succeeded, among others. */
  calls?: readonly CallPattern[] | undefined;
  /** What the agent must have said. */
  said?: readonly Phrase[] | undefined;
}

export interface TaskProhibition {
  /** Calls that must not have been tried. */
  calls?: readonly CallPattern[] | undefined;
  said?: readonly Phrase[] | undefined;
}

const call = z.strictObject({ tool: z.string().min(1), arguments: z.record(z.string(), z.unknown()).optional() });
const words = z.string().refine((text) => text.trim() !== "", "an empty text");
const phrase = z.union([words, z.array(words).min(1)]);

export const declaredShape = {
  expect: z
    .strictObject({
      state: z.unknown().optional(),
      writes: z.array(call).optional(),
      calls: z.array(call).optional(),
      said: z.array(phrase).optional(),
    })
    .optional(),
  forbid: z.strictObject({ calls: z.array(call).optional(), said: z.array(phrase).optional() }).optional(),
} as const;

export interface Declared {
  expect?: TaskExpectation | undefined;
  forbid?: TaskProhibition | undefined;
}

/** Calls that a declaration names. */
export function callsNamedIn({ expect, forbid }: Declared): {
  expected: CallPattern[];
  forbidden: readonly CallPattern[];
} {
  return { expected: [...(expect?.writes ?? []), ...(expect?.calls ?? [])], forbidden: forbid?.calls ?? [] };
}

/** Whether a declaration says anything. Where it does not, whatever an agent does would be a success. */
export function saysSomething({ expect, forbid }: Declared): boolean {
  if (expect?.state !== undefined || expect?.writes !== undefined) return true;
  return [expect?.calls, expect?.said, forbid?.calls, forbid?.said].some((list) => list && list.length > 0);
}

/**
 * The share of what was expected that came true; words count only once all deeds are done, and nothing does after something forbidden or a
 * write that was not expected: a claim earns nothing.
 */
export function judgeDeclared({ expect = {}, forbid = {} }: Declared, final: FinalTask): ReadCheck {
  const said = final.said.join("\n");
  const isSaid = (one: Phrase) => [one].flat().some((text) => mentions(said, text));
  const bad = (why: string): ReadCheck => ({ success: false, progress: 0, why });
  for (const one of forbid.calls ?? []) {
    if (final.calls.some((made) => matches(one, made.name, made.arguments))) return bad(`it called ${print(one)}`);
  }
  for (const one of forbid.said ?? []) if (isSaid(one)) return bad(`it said ${printPhrase(one)}`);
  const writes = pairWrites(expect.writes, final);
  if (writes.surplus !== undefined) return bad(`it wrote by ${writes.surplus}, which was not asked for`);
  const deeds: [string, boolean][] = [
    ...writes.met,
    ...(expect.calls ?? []).map((one): [string, boolean] => {
      const met = final.calls.some(({ name, arguments: args, failure }) => !failure && matches(one, name, args));
      return [`it never called ${print(one)}`, met];
    }),
    ...(expect.state === undefined
      ? []
      : [["the final state is another", holds(expect.state, final.state)] as [string, boolean]]),
  ];
  const acted = deeds.every(([, met]) => met);
  const words = (expect.said ?? []).map((one): [string, boolean] => [
    `it never said ${printPhrase(one)}`,
    acted && isSaid(one),
  ]);
  const all = [...deeds, ...words];
  const missing = all.find(([, met]) => !met);
  if (!missing) return { success: true, progress: 1 };
  return { success: false, progress: all.filter(([, met]) => met).length / all.length, why: missing[0] };
}

/** Every write needs an expected one of its own. */
function pairWrites(expected: readonly CallPattern[] | undefined, { writes }: FinalTask) {
  if (!expected) return { met: [] };
  const open = [...expected];
  for (const write of writes) {
    const at = open.findIndex((one) => matches(one, write.tool, write.arguments));
    if (at < 0) return { met: [], surplus: print(write) };
    open.splice(at, 1);
  }
  const met = expected.map((one): [string, boolean] => [`it never wrote by ${print(one)}`, !open.includes(one)]);
  return { met };
}

function matches(pattern: CallPattern, name: string, args: unknown): boolean {
  return pattern.tool === name && (pattern.arguments === undefined || holds(pattern.arguments, args));
}

/** Whether a value has all that a pattern has. */
function holds(pattern: unknown, value: unknown): boolean {
  if (!isRecord(pattern)) return sameJson(pattern, value);
  return isRecord(value) && Object.entries(pattern).every(([key, one]) => holds(one, own(value, key)));
}

function own(value: Readonly<Record<string, unknown>>, key: string): unknown {
  return Object.hasOwn(value, key) ? value[key] : undefined;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function print({ tool, arguments: args }: CallPattern | { tool: string; arguments: unknown }): string {
  return args === undefined ? tool : `${tool}(${JSON.stringify(args)})`;
}

function printPhrase(one: Phrase): string {
  return [one]
    .flat()
    .map((text) => JSON.stringify(text))
    .join(" or ");
}
