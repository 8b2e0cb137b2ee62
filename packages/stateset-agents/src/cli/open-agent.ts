import { resolve } from "node:path";
import type { Agent } from "../agent/agent.ts";
import type { AgentOptions } from "../agent/agent-options.ts";
import { loadAgentFromCheckpoint } from "../agent/load-agent.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { CliIo } from "./io.ts";
import { buildProject } from "./project/build-project.ts";
import { findConfig, loadProject } from "./project/load-project.ts";

export interface OpenAgentFlags {
  config?: string;
  threads?: number;
  temperature?: number;
  maxTokens?: number;
  seed?: number;
  stub?: boolean;
}

/** The agent of a checkpoint; without one the project's, or the starter model where there is no project. */
export async function openAgent(checkpoint: string | undefined, flags: OpenAgentFlags, io: CliIo): Promise<Agent> {
  const overrides: AgentOptions = {
    ...(flags.threads !== undefined && { threads: flags.threads }),
    ...(flags.seed !== undefined && { seed: flags.seed }),
  };
  const sampling = {
    ...(flags.temperature !== undefined && { temperature: flags.temperature }),
    ...(flags.maxTokens !== undefined && { maxTokens: flags.maxTokens }),
  };
  if (flags.stub) {
    const agent = new MultiTurnAgent({ ...overrides, sampling, stub: {} });
    await agent.initialize();
    return agent;
  }
  if (checkpoint !== undefined) {
    const agent = await loadAgentFromCheckpoint(resolve(io.cwd, checkpoint), overrides);
    if (Object.keys(sampling).length === 0) return agent;
    // The model is loaded once; only the way it is used changes.
    const { sampling: saved, systemPrompt, reasoning, contextWindow } = agent.options;
    return new SharedPolicyAgent(agent, {
      ...overrides,
      systemPrompt,
      reasoning,
      contextWindow,
      sampling: { ...saved, ...sampling },
    });
  }
  if (flags.config !== undefined || findConfig(io.cwd) !== undefined) {
    const { agent } = await buildProject(await loadProject(flags.config, io.cwd), {
      ...(flags.threads !== undefined && { threads: flags.threads }),
    });
    await agent.initialize();
    return agent;
  }
  const agent = new MultiTurnAgent({ ...overrides, sampling });
  await agent.initialize();
  return agent;
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
