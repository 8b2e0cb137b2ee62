/** What every learner from data can be told: SFT, the losses of preferences, reward models, value functions. */
import { z } from "zod";
import type { Agent } from "../agent/agent.ts";
import { StatesetError } from "../error.ts";
import {
  defaultTokenBudget,
  learningRateFor,
  optimiserShape,
  passShape,
  scheduleShape,
} from "../learning/optimiser.ts";
import { mergeDefined, parseOptions, pick } from "../options.ts";
import type { Policy } from "../policy/policy.ts";
import { runDirOf } from "../run/checkpoint/store.ts";
import { type LearnerKind, readConfig } from "../run/config.ts";
import { requireLearner } from "../run/open-run.ts";
import { checkpointSchema, type RunChoice, runShape, trajectoriesSchema } from "../run/options.ts";

/** The settings each of them has; spread into its strict schema. */
export const fitShape = {
  seed: z.int().min(0).default(0),
  epochs: z.int().min(1).default(1).describe("Passes over the data, each newly shuffled."),
  batchSize: z.int().min(1).default(16).describe("Examples per optimiser step."),
  ...passShape,
  ...optimiserShape,
  ...scheduleShape,
  evaluateEvery: z.int().min(0).default(0).describe("Steps between evaluations; 0: only before and after."),
  checkpoint: checkpointSchema(100),
  trajectories: trajectoriesSchema({ every: 100, perStep: 4, what: "Examples written each time." }),
} as const;

type Parsed = z.output<z.ZodObject<typeof fitShape>>;

/** Where they are left out they go by the model. */
export type Chosen = "learningRate" | "tokenBudget";

/** Resolved: every number is there. */
export type FitSettings = Omit<Parsed, Chosen> & Record<Chosen, number>;

export type FitOptions = z.input<z.ZodObject<typeof fitShape>> & RunChoice;

/**
 * Reads the options of a learner; those that are left out are those of the run it goes on with. `kinds` are the runs it can take up,
 * `where` names it.
 */
export function readFitOptions<S extends z.ZodObject>(
  schema: S,
  options: object,
  kinds: readonly LearnerKind[],
  where: string,
): z.output<S> {
  const { resumeFrom } = options as RunChoice;
  if (typeof resumeFrom !== "string") return parseOptions(schema, options, where);
  const saved = readConfig(runDirOf(resumeFrom));
  requireLearner(saved, kinds, where);
  const known = Object.entries(saved.settings).filter(([key]) => key in schema.shape);
  return parseOptions(schema, mergeDefined({ ...options }, Object.fromEntries(known)), where);
}

/** Sorts parsed options into plain settings, complete for a model, and what the run is told. `shape` has the settings. */
export function splitFitOptions<T extends Parsed & RunChoice, K extends keyof T>(
  options: T,
  shape: Readonly<Record<K, unknown>>,
  policy: Pick<Policy, "model" | "plan">,
): { settings: Omit<Pick<T, K>, Chosen> & Record<Chosen, number>; on: RunChoice } {
  // Last, given or not: a run that goes on writes the same config.json.
  const chosen: readonly string[] = ["learningRate", "tokenBudget"] satisfies Chosen[];
  const settings = pick(
    options,
    (Object.keys(shape) as K[]).filter((key) => !chosen.includes(key as string)),
  );
  return {
    settings: {
      ...settings,
      learningRate: options.learningRate ?? learningRateFor(policy.model),
      tokenBudget: options.tokenBudget ?? defaultTokenBudget(policy, options.recompute),
    },
    on: pick(options as RunChoice, Object.keys(runShape) as (keyof RunChoice)[]),
  };
}

/** Who learns: an agent (initialised when needed) or a bare policy. */
export type AgentOrPolicy = { agent: Agent; policy?: never } | { policy: Policy; agent?: never };

export async function policyOf(
  { agent, policy }: { agent?: Agent | undefined; policy?: Policy | undefined },
  where: string,
): Promise<Policy> {
  if ((agent === undefined) === (policy === undefined)) {
    throw new StatesetError("INVALID_OPTION", `${where} needs an agent or a policy, one of them.`);
  }
  await agent?.initialize();
  return agent?.policy ?? policy!;
}

/** The same, for schemas. */
export const agentOrPolicyShape = {
  agent: z
    .custom<Agent>((v) => typeof (v as Agent | null)?.startConversation === "function", "expected an Agent")
    .optional(),
  policy: z.custom<Policy>((v) => typeof (v as Policy | null)?.forward === "function", "expected a Policy").optional(),
} as const;
