/** An agent from what training left: a saved model, a run (finished or not), or one of its checkpoints. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { readAgentFile, rewardModelFileName, storedOptionsIn } from "../agent/agent-file.ts";
import type { AgentOptions } from "../agent/agent-options.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { StatesetError } from "../error.ts";
import { isGgufName } from "../policy/gguf/find-gguf.ts";
import { findCheckpoint, runDirOf } from "./checkpoint/store.ts";
import { isOfOneKind, readConfig } from "./config.ts";
import { pathIn, runFiles, stepOf } from "./layout.ts";

/** Where an agent's weights lie: a folder in Hugging Face or PEFT layout, or a checkpoint of the run it belongs to. */
export type AgentPlace = { kind: "model"; dir: string } | { kind: "checkpoint"; dir: string; run: string };

/**
 * An initialised agent from a folder written by agent.save() or train(): a model in Hugging Face layout or an adapter in PEFT
 * layout, with `agent.json` beside it; or a GGUF file. The folder of a run works too (its `final/` is taken, or its last checkpoint while there is none),
 * and so does one of its checkpoints: `runs/a/checkpoints/step-000040`, `runs/a/checkpoints/best`, `…/last`. `overrides` go before what
 * was saved.
 */
export async function loadAgentFromCheckpoint(path: string, overrides: AgentOptions = {}): Promise<MultiTurnAgent> {
  const place = findAgent(path);
  return place.kind === "model" ? openModel(place.dir, overrides) : openCheckpoint(place.dir, place.run, overrides);
}

export function findAgent(path: string): AgentPlace {
  const full = followPointer(resolve(path));
  if (stepOf(basename(full)) !== undefined && basename(dirname(full)) === runFiles.checkpoints) {
    return { kind: "checkpoint", dir: full, run: runDirOf(full) };
  }
  // A run has a config.json of its own, so its `final/` goes first.
  const folder = [pathIn(full, "final"), ...(isRun(full) ? [] : [full])].find(holdsModel);
  if (folder !== undefined) return { kind: "model", dir: folder };
  const checkpoint = isRun(full) ? findCheckpoint(full, () => {}) : undefined;
  if (checkpoint) return { kind: "checkpoint", dir: checkpoint.dir, run: full };
  throw new StatesetError("CHECKPOINT_NOT_FOUND", `There is no checkpoint in ${path}.`, {
    hint: isRun(full)
      ? "The run has not saved one yet: that happens every `checkpoint.every` steps, and when it ends or is stopped."
      : "Give a saved model or adapter (config.json or adapter_config.json), a .gguf file, a run's folder, or one of its checkpoints.",
  });
}

/** How the agent there was used when it was saved, or when its run began. */
export async function keptOptions(place: AgentPlace): Promise<AgentOptions> {
  return place.kind === "model" ? readAgentFile(place.dir) : storedOptionsIn(readConfig(place.run).agent ?? {});
}

async function openModel(dir: string, overrides: AgentOptions): Promise<MultiTurnAgent> {
  requireConversations(dir);
  const agent = new MultiTurnAgent({ ...(await readAgentFile(dir)), model: dir, ...overrides });
  await agent.initialize();
  return agent;
}

/** A checkpoint holds what was trained; the model it was trained from, and how the agent used it, is in the run's config.json. */
async function openCheckpoint(dir: string, run: string, overrides: AgentOptions): Promise<MultiTurnAgent> {
  const { model, agent: kept, learner } = readConfig(run);
  if (learner === "reward-model" || learner === "value-function") throw noConversations(dir);
  // Its hashes are looked at before anything is made of it.
  findCheckpoint(dir, () => {});
  const isAdapter = existsSync(join(model.name, "adapter_config.json"));
  const agent = new MultiTurnAgent({
    ...storedOptionsIn(kept ?? {}),
    model: model.name,
    ...(model.lora && !isAdapter && { lora: model.lora }),
    ...overrides,
  });
  try {
    await agent.initialize();
    const { policy } = agent;
    const { digest } = policy.model;
    // A new adapter's first values follow from the seed, and count.
    const sameAdapter = isAdapter || (agent.options.seed ?? 0) === (kept?.seed ?? 0);
    if (model.lora && sameAdapter && isOfOneKind(digest, model.digest) && digest !== model.digest) {
      throw new StatesetError(
        "CHECKPOINT_MISMATCH",
        `${model.name} is not what the adapter in ${dir} was trained on.`,
        {
          hint: "Its weights have changed since. Put the old ones back, or give the folder that holds them as `model`.",
        },
      );
    }
    await policy.load(join(dir, "policy"));
    return agent;
  } catch (error) {
    await agent.close();
    throw error;
  }
}

/** A model has a config.json too; these a run alone has. */
function isRun(dir: string): boolean {
  return existsSync(pathIn(dir, "status")) || existsSync(pathIn(dir, "checkpoints"));
}

/** `checkpoints/best` and `checkpoints/last` are files that name a checkpoint. */
function followPointer(path: string): string {
  const isPointer = basename(dirname(path)) === runFiles.checkpoints && existsSync(path) && statSync(path).isFile();
  return isPointer ? join(dirname(path), readFileSync(path, "utf8").trim()) : path;
}

/** Refuses the folder of a reward model. */
export function requireConversations(dir: string): void {
  if (existsSync(join(dir, rewardModelFileName))) throw noConversations(dir);
}

function noConversations(dir: string): StatesetError {
  return new StatesetError(
    "MODEL_UNSUPPORTED",
    `${dir} holds a reward model: it scores conversations and cannot hold one.`,
    {
      hint: "Train with it (`npx stateset-agents train --reward <run>`), load it with loadNeuralReward() of stateset-agents/rewards, or name the run of an agent.",
    },
  );
}

function holdsModel(dir: string): boolean {
  if (existsSync(join(dir, "config.json")) || existsSync(join(dir, "adapter_config.json"))) return true;
  if (!existsSync(dir)) return false;
  return statSync(dir).isDirectory() ? readdirSync(dir).some(isGgufName) : isGgufName(dir);
}
