/** What the domains share: seeded tasks in classes and levels, a user for each, and an oracle that knows the way. */
import { z } from "zod";
import type { ToolCall } from "../../conversation/message.ts";
import type { Turn } from "../../conversation/trajectory.ts";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { createRandom, type Random, seedOf } from "../../random.ts";
import type { EnvironmentState } from "../environment.ts";
import type { Scenario } from "../scenario.ts";
import type { Declared } from "../task/declared.ts";
import type { AnyState, TaskTool } from "../task/task-tool.ts";
import { TaskEnvironment } from "../task-environment.ts";
import { personaUser } from "../user/persona.ts";
import type { UserProfile } from "../user/profile.ts";

/** What a task asks of the agent; a scenario's `topic`. */
export const taskClasses = ["lookup", "act", "refuse", "ask"] as const;
export type TaskClass = (typeof taskClasses)[number];

export interface DomainOptions {
  /** 1 to 3, from easy to hard. Default 1. */
  level?: 1 | 2 | 3 | undefined;
  /** Other ids, names and phrasings than in training. Default false. */
  heldOut?: boolean | undefined;
  /** How many, a quarter of each class; 10,000 at most. Default 64. */
  tasks?: number | undefined;
  /** Other tasks of the same kind. Default 0. */
  seed?: number | undefined;
  /** Replies of the agent, calls among them, at most. Default 12. */
  maxTurns?: number | undefined;
}

const optionsSchema = z.strictObject({
  level: z.union([z.literal(1), z.literal(2), z.literal(3)], "1, 2 or 3 was expected").default(1),
  heldOut: z.boolean().default(false),
  // Each has a world of its own: more of them would take long to make, and a seed gives others.
  tasks: z.int().min(1).max(10_000, "at most 10,000 were expected; another seed gives other ones").default(64),
  seed: z.int().default(0),
  maxTurns: z.int().min(1).default(12),
});

/** One reply of the oracle. */
export type SolutionStep = { call: string; arguments: Readonly<Record<string, unknown>> } | { say: string };

export interface DomainTask extends Declared {
  state: unknown;
  user: UserProfile & { goal: string };
  solution: readonly SolutionStep[];
}

/** In training the first, held out the second. */
export type Split<T> = readonly [training: readonly T[], heldOut: readonly T[]];

export interface Draw {
  random: Random;
  /** One of those that belong to training, or to what is held out. */
  of<T>(split: Split<T>): T;
  /** Several, all different. */
  some<T>(split: Split<T>, count: number): T[];
  one<T>(from: readonly T[]): T;
  heldOut: boolean;
}

export interface DomainDefinition {
  name: string;
  tools: (level: number) => readonly TaskTool<AnyState>[];
  policy: (level: number) => string;
  /** `number` counts tasks of a class, so that kinds within it take turns. */
  task: (draw: Draw, kind: TaskClass, level: number, number: number) => DomainTask;
}

export function defineDomain(definition: DomainDefinition): (options?: DomainOptions) => TaskEnvironment {
  const { name, tools, policy, task } = definition;
  return (options = {}) => {
    const { level, heldOut, tasks: count, seed, maxTurns } = parseOptions(optionsSchema, options, `${name}()`);
    const tasks = Array.from({ length: count }, (_, i) => {
      const kind = taskClasses[i % taskClasses.length]!;
      const number = Math.floor(i / taskClasses.length);
      const random = createRandom(seedOf(name, level, heldOut ? 1 : 0, seed, i));
      const { user, solution, ...rest } = task(drawing(random, heldOut), kind, level, number);
      const id = `${name}-${level}${heldOut ? "-held-out" : ""}-${kind}-${number + 1}`;
      return { ...rest, id, topic: kind, goal: user.goal, prompt: user.goal, metadata: { user, solution } };
    });
    return new TaskEnvironment({
      ...{ tasks, maxTurns, tools: tools(level), policy: policy(level) },
      user: personaUser(({ metadata }: Scenario) => metadata?.user as UserProfile),
    });
  };
}

function drawing(random: Random, heldOut: boolean): Draw {
  const mine = <T>([training, other]: Split<T>) => (heldOut ? other : training);
  const one = <T>(from: readonly T[]) => from[random.below(from.length)]!;
  return {
    random,
    heldOut,
    one,
    of: (split) => one(mine(split)),
    some: (split, count) => random.shuffled(mine(split)).slice(0, count),
  };
}

/** "{name}" filled in; "a" becomes "an" where it has to. */
export function fill(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\{(\w+)\}/g, (_, name: string) => values[name]!).replace(/\b([Aa]) (?=[AEIOUaeiou])/g, "$1n ");
}

/**
 * What somebody who knows the way would reply: for demonstrations, and as proof that every task can be solved. It reads the solution from
 * the scenario's metadata, which no agent is shown.
 */
export function oracleReply({ scenario, replies, turns }: EnvironmentState): Turn {
  const solution = scenario.metadata?.solution as readonly SolutionStep[] | undefined;
  const next = solution?.[replies];
  if (!next) {
    throw new StatesetError("INVALID_SCENARIO", `Scenario "${scenario.id}" has no solution for reply ${replies + 1}.`, {
      hint: "The oracle plays tasks of the domains, from their beginning.",
    });
  }
  if ("say" in next) return { role: "assistant", content: next.say };
  const made = turns.reduce((count, { tool_calls = [] }) => count + tool_calls.length, 0);
  const written = { name: next.call, arguments: JSON.stringify(next.arguments) };
  const call: ToolCall = { id: `call${String(made + 1).padStart(5, "0")}`, type: "function", function: written };
  return { role: "assistant", content: "", tool_calls: [call] };
}

/** Words by which somebody says that something will not be done. */
export const refusals: readonly string[] = [
  ...["cannot", "can't", "can not", "could not", "couldn't", "unable", "sorry", "unfortunately"],
  ...["not possible", "not allowed"],
];

/** Claims that something was done: "cancelled" → "is cancelled", "has been cancelled", "I cancelled", … */
export function claimsOf(...participles: readonly string[]): string[] {
  const before = [
    "is",
    "is now",
    "was",
    "were",
    "are",
    "has been",
    "have been",
    "have",
    "i",
    "i've",
    "successfully",
    "all",
  ];
  return participles.flatMap((word) => before.map((start) => `${start} ${word}`));
}
