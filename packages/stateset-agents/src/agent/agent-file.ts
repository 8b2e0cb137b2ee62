import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { writeJsonAtomic } from "../durable.ts";
import { messageOf, StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import {
  type AgentOptions,
  defaultResultTokens,
  type ResolvedAgentOptions,
  storedOptionsShape,
} from "./agent-options.ts";

/** The file beside a saved model that says how the agent used it. */
export const agentFileName = "agent.json";
/** Beside the weights of a reward model instead. */
export const rewardModelFileName = "reward-model.json";

const agentFileSchema = z.strictObject({ version: z.literal(1), ...storedOptionsShape });

export async function writeAgentFile(dir: string, options: ResolvedAgentOptions): Promise<void> {
  writeJsonAtomic(join(dir, agentFileName), { version: 1, ...storedOptions(options) });
}

/** The options that decide how the agent talks, whatever runs it. */
export function storedOptions(
  options: ResolvedAgentOptions,
): Partial<Pick<AgentOptions, keyof typeof storedOptionsShape>> {
  const { systemPrompt, sampling, tools, callFormat, constrain, maxToolSteps, maxResultTokens } = options;
  const { templateVariables, reasoning, seed, contextWindow } = options;
  const runs = [...options.runnable.keys()];
  const acting =
    runs.length > 0 || callFormat
      ? { runs, callFormat, maxToolSteps, maxResultTokens }
      : // Without tools of its own it still reads those of an environment.
        maxResultTokens === defaultResultTokens
        ? {}
        : { maxResultTokens };
  return {
    systemPrompt,
    sampling,
    tools,
    ...acting,
    ...(constrain && { constrain }),
    templateVariables,
    reasoning,
    seed,
    contextWindow,
  };
}

/** Those among what describe() said of an agent: how it talked when a run began. */
export function storedOptionsIn(described: Readonly<Record<string, unknown>>): AgentOptions {
  const kept = Object.keys(storedOptionsShape).filter(
    (name) => described[name] !== undefined && described[name] !== null,
  );
  const picked = Object.fromEntries(kept.map((name) => [name, described[name]]));
  return parseOptions(z.strictObject(storedOptionsShape), picked, "the run's agent", "CHECKPOINT_INVALID");
}

/** The options kept beside a model; none when it was not saved by an agent (a plain model folder). */
export async function readAgentFile(dir: string): Promise<AgentOptions> {
  const path = join(dir, agentFileName);
  if (!existsSync(path)) return {};
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, "utf8"));
  } catch (error) {
    throw new StatesetError("CHECKPOINT_INVALID", `${path} could not be read: ${messageOf(error)}.`, { cause: error });
  }
  const { version: _, ...options } = parseOptions(agentFileSchema, value, path, "CHECKPOINT_INVALID");
  return options;
}
