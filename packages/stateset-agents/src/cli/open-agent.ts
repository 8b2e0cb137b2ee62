import { existsSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../agent/agent.ts";
import { agentFileName } from "../agent/agent-file.ts";
import { type AgentOptions, defined, toolsOf } from "../agent/agent-options.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { ToolAgent } from "../agent/tool-agent.ts";
import { StatesetError } from "../error.ts";
import { pick } from "../options.ts";
import { buildParts } from "../project/build-project.ts";
import { findConfig, loadProject } from "../project/load-project.ts";
import { type EngineFlags, onEngine } from "../project/on-engine.ts";
import { type AgentPlace, findAgent, keptOptions, loadAgentFromCheckpoint } from "../run/load-agent.ts";
import { readTools } from "../tool/read-tools.ts";
import { tool } from "../tool/tool.ts";
import { checkpointPath } from "./checkpoint-path.ts";
import type { CliIo } from "./io.ts";

export interface OpenAgentFlags extends EngineFlags {
  model?: string | undefined;
  config?: string | undefined;
  slots?: number | undefined;
  cacheBytes?: number | undefined;
  temperature?: number;
  maxTokens?: number;
  seed?: number;
  stub?: boolean | undefined;
  constrain?: true;
}

/** The agent of a checkpoint; without one the project's, or the starter model where there is no project. */
export async function openAgent(checkpoint: string | undefined, flags: OpenAgentFlags, io: CliIo): Promise<Agent> {
  const agent = await agentOf(checkpoint, flags, io);
  if (!flags.constrain) return agent;
  try {
    return constrained(agent);
  } catch (error) {
    await agent.close();
    throw error;
  }
}

/** The agent of a checkpoint, to be written elsewhere as it was saved: it holds no conversation, so the code of its tools is not needed. */
export async function openToExport(checkpoint: string, io: CliIo): Promise<Agent> {
  const dir = checkpointPath(checkpoint, io);
  const place = findAgent(dir);
  if (!isSaved(place)) return openAgent(checkpoint, {}, io);
  const { tools, runs = [] } = await keptOptions(place);
  if (tools === undefined || runs.length === 0) return loadAgentFromCheckpoint(dir);
  const kept = readTools(tools).definitions.map((definition) => {
    const { name } = definition.function;
    if (!runs.includes(name)) return definition;
    const execute = () => {
      throw new StatesetError("TOOL_MISSING", `The code of the tool "${name}" was not loaded.`);
    };
    return { ...tool({ name, execute }), definition };
  });
  return loadAgentFromCheckpoint(dir, { tools: kept });
}

async function agentOf(checkpoint: string | undefined, flags: OpenAgentFlags, io: CliIo): Promise<Agent> {
  const overrides: AgentOptions = {
    ...pick(flags, ["slots", "cacheBytes"]),
    ...(flags.seed !== undefined && { seed: flags.seed }),
  };
  const sampling = {
    ...(flags.temperature !== undefined && { temperature: flags.temperature }),
    ...(flags.maxTokens !== undefined && { maxTokens: flags.maxTokens }),
  };
  if (flags.stub) {
    const agent = new MultiTurnAgent({ ...onEngine({}, flags, true), ...overrides, sampling, stub: {} });
    await agent.initialize();
    return agent;
  }
  if (checkpoint !== undefined) {
    if (flags.model !== undefined) {
      throw new StatesetError("INVALID_OPTION", "--model and --checkpoint both say who answers.", {
        hint: "Give one of them: a checkpoint knows its model.",
      });
    }
    const dir = checkpointPath(checkpoint, io);
    const agent = await loadAgentFromCheckpoint(dir, { ...(await habitsFor(dir, flags, io)), ...overrides });
    if (Object.keys(sampling).length === 0) return agent;
    return usedAs(agent, { ...overrides, sampling: { ...agent.options.sampling, ...sampling } });
  }
  if (flags.config !== undefined || findConfig(io.cwd) !== undefined) {
    const { agent } = await buildParts(await loadProject(flags.config, io.cwd), {
      ...(flags.model !== undefined && { model: flags.model }),
      ...pick(flags, ["engine", "gpus", "threads", "slots", "cacheBytes"]),
      sampling,
    });
    await agent.initialize();
    return agent;
  }
  const agent = new MultiTurnAgent({
    ...onEngine({}, flags),
    ...overrides,
    ...(flags.model !== undefined && { model: flags.model }),
    sampling,
  });
  await agent.initialize();
  return agent;
}

/**
 * A model that no agent saved (an untrained one) is used the way the project's agent would use it. One that was saved keeps its own way,
 * but the code of its tools is the project's, and what computes is the project's or the flags'.
 */
async function habitsFor(dir: string, flags: OpenAgentFlags, io: CliIo): Promise<AgentOptions> {
  const place = findAgent(dir);
  const saved = isSaved(place);
  if (flags.config === undefined && findConfig(io.cwd) === undefined) return onEngine({}, flags);
  const { agent } = (await loadProject(flags.config, io.cwd)).config;
  if (agent === undefined) return onEngine({}, flags);
  const own =
    agent instanceof Agent ? (agent instanceof MultiTurnAgent ? toolsOf(agent.options) : undefined) : agent.tools;
  const tools = own && readTools(own).runnable.size > 0 ? { tools: own } : {};
  if (agent instanceof Agent) return { ...tools, ...onEngine({}, flags) };
  return { ...(saved ? tools : defined(habitsOf(agent))), ...onEngine(agent, flags) };
}

/** How an agent uses its model, whichever that is. */
function habitsOf(options: AgentOptions): AgentOptions {
  const { systemPrompt, sampling, templateVariables, reasoning, contextWindow } = options;
  const { tools, callFormat, maxToolSteps, maxResultTokens, approve, constrain } = options;
  const acting = { tools, callFormat, maxToolSteps, maxResultTokens, approve, constrain };
  return { systemPrompt, sampling, ...acting, templateVariables, reasoning, contextWindow };
}

function isSaved(place: AgentPlace): boolean {
  return place.kind === "checkpoint" || existsSync(join(place.dir, agentFileName));
}

/** Whether the command line may use its model another way: a class of the user's may do anything with its conversations. */
function isPlain(agent: Agent): agent is MultiTurnAgent {
  return [MultiTurnAgent, ToolAgent, SharedPolicyAgent].some((own) => agent.constructor === own);
}

/** Holds the agent's calls to the schemas of its tools. */
function constrained(agent: Agent): Agent {
  if (!isPlain(agent)) {
    throw new StatesetError(
      "INVALID_OPTION",
      `--constrain cannot change an agent of the class ${agent.constructor.name}.`,
      {
        hint: "Set its option instead: constrain: true.",
      },
    );
  }
  if ((agent.options.tools ?? []).length === 0) {
    throw new StatesetError("INVALID_OPTION", "--constrain holds calls of tools, and this agent has none.", {
      hint: "Name a configuration whose agent has tools (--config), or leave it out. Tools of an environment are there in `evaluate --scenarios`.",
    });
  }
  return agent.options.constrain === undefined ? usedAs(agent, { constrain: true }) : agent;
}

/** Drops the oldest messages of a conversation that outgrows the model, where the agent itself has nothing to say about that. */
export function withRoom(agent: Agent): Agent {
  if (!isPlain(agent)) return agent;
  return agent.options.contextWindow === undefined ? usedAs(agent, { contextWindow: "truncate" }) : agent;
}

/** The same model, loaded once, used another way. */
function usedAs(agent: MultiTurnAgent, changes: AgentOptions): MultiTurnAgent {
  const { options } = agent;
  const { seed, memory } = options;
  return new SharedPolicyAgent(agent, {
    ...habitsOf({ ...options, tools: toolsOf(options) }),
    seed,
    memory,
    ...changes,
  });
}

/** An agent on another one's model, which closing it closes. */
class SharedPolicyAgent extends MultiTurnAgent {
  constructor(
    private readonly owner: Agent,
    options: AgentOptions,
  ) {
    super({ ...options, policy: owner.policy });
  }

  override async close(): Promise<void> {
    await this.owner.close();
  }
}
