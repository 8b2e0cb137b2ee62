import { existsSync } from "node:fs";
import { join } from "node:path";
import { StatesetError } from "../error.ts";
import { readAgentFile, rewardModelFileName } from "./agent-file.ts";
import type { AgentOptions } from "./agent-options.ts";
import { MultiTurnAgent } from "./multi-turn-agent.ts";

/**
 * An initialised agent from a folder written by agent.save() or train(): a model in Hugging Face layout or an adapter in PEFT
 * layout, with `agent.json` beside it. The folder of a run works too (its `final/` is taken). `overrides` go before what was saved.
 */
export async function loadAgentFromCheckpoint(dir: string, overrides: AgentOptions = {}): Promise<MultiTurnAgent> {
  // A run has a config.json of its own, so its `final/` goes first.
  const folder = [join(dir, "final"), dir].find(holdsModel);
  if (folder === undefined) {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", `There is no checkpoint in ${dir}.`, {
      hint: "A checkpoint holds config.json (a model) or adapter_config.json (an adapter).",
    });
  }
  if (existsSync(join(folder, rewardModelFileName))) {
    throw new StatesetError(
      "MODEL_UNSUPPORTED",
      `${folder} holds a reward model, which scores conversations and has none.`,
      {
        hint: "Load it with loadNeuralReward() of stateset-agents/rewards, or name the run of an agent.",
      },
    );
  }
  const agent = new MultiTurnAgent({ ...(await readAgentFile(folder)), model: folder, ...overrides });
  await agent.initialize();
  return agent;
}

function holdsModel(dir: string): boolean {
  return existsSync(join(dir, "config.json")) || existsSync(join(dir, "adapter_config.json"));
}
