import { accessSync, constants, existsSync, statfsSync } from "node:fs";
import { availableParallelism, cpus, totalmem } from "node:os";
import { join, resolve } from "node:path";
import { starterModelPath } from "@stateset-agents/starter-model";
import { defaultLora } from "../../agent/agent-options.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { tokenBudgetFor } from "../../learning/optimiser.ts";
import { engines } from "../../policy/engines.ts";
import { tokenizerSource } from "../../policy/gguf/find-gguf.ts";
import { availableMemory } from "../../policy/native/memory.ts";
import { readModelConfig } from "../../policy/native/model-config.ts";
import { bytes, quantity } from "../../telemetry/format.ts";
import { messageAndHint } from "../failure.ts";
import { checkTorch } from "./python-checks.ts";

export interface Check {
  name: string;
  /** note: not there, and not needed. */
  status: "ok" | "note" | "problem";
  detail: string;
  /** The command or step that mends a problem. */
  fix?: string;
}

export interface Surroundings {
  cwd: string;
  env: Readonly<Record<string, string | undefined>>;
  model: string | undefined;
  /** For tests; default: this process's. */
  nodeVersion?: string;
}

export async function runChecks(around: Surroundings): Promise<Check[]> {
  return [
    checkNode(around.nodeVersion ?? process.versions.node),
    await checkEngine(),
    checkThreads(),
    ...(await checkModel(around)),
    checkDisk(around.cwd),
    ...(await checkTorch(around.env)),
  ];
}

export function checkNode(version: string): Check {
  const [major, minor] = version.split(".").map(Number) as [number, number];
  const fits = major > 20 || (major === 20 && minor >= 19);
  return {
    name: "Node",
    status: fits ? "ok" : "problem",
    detail: fits ? version : `${version} is too old; 20.19 or newer is needed`,
    ...(!fits && { fix: "nvm install 22 && nvm use 22" }),
  };
}

/** Opens the smallest possible model: proves that the engine loads and tells which instructions it uses. */
export async function checkEngine(): Promise<Check> {
  try {
    const { openModel } = await import("@stateset-agents/engine");
    const shape = { vocab: 8, hidden: 8, layers: 1, heads: 1, kvHeads: 1, headDim: 8, inter: 8, maxPositions: 8 };
    const flavour = {
      norm: "rms",
      normEps: 1e-5,
      mlp: "swiglu",
      position: "rope",
      ropeTheta: 10_000,
      ropeScaling: undefined,
    } as const;
    const switches = {
      tied: true,
      qkvBias: false,
      outBias: false,
      mlpBias: false,
      qkNorm: false,
      slidingWindow: undefined,
    };
    const model = await openModel({ ...shape, ...flavour, ...switches }, { threads: 1, slots: 1, cacheBytes: 1 << 20 });
    const { simd } = model;
    await model.close();
    return {
      name: "Engine",
      status: "ok",
      detail: `loaded, using ${simd}${simd === "scalar" ? " (slow: no vector instructions)" : ""}`,
    };
  } catch (error) {
    const [detail, ...rest] = messageOf(error).split(". ");
    // It is there, and was asked for what this machine does not have.
    const refused = error instanceof Error && "code" in error && error.code === "INVALID_CONFIG";
    return {
      name: "Engine",
      status: "problem",
      detail: detail!,
      fix: refused
        ? rest.join(". ")
        : existsSync("packages/engine")
          ? "npm run build (needs Rust: https://rustup.rs)"
          : "npm install stateset-agents@latest (or build the engine from the repository)",
    };
  }
}

function checkThreads(): Check {
  const threads = availableParallelism();
  return { name: "Threads", status: "ok", detail: `${threads} (${cpus()[0]?.model.trim() ?? "unknown processor"})` };
}

async function checkModel({ cwd, model }: Surroundings): Promise<Check[]> {
  const dir = model === undefined ? starterModelPath : resolve(cwd, model);
  const name = model ?? "the starter model";
  try {
    const pass = { reference: true, recompute: false };
    const tokenBudget = tokenBudgetFor(await engines.native.plan(dir, { ...pass, tokenBudget: 1 }));
    const run = { ...pass, tokenBudget };
    const plan = await engines.native.plan(dir, { ...run, precision: "f32" });
    const adapter = await engines.native.plan(dir, { ...run, lora: defaultLora });
    await checkTokenizer(dir);
    const fits = adapter.total <= plan.available;
    const alone = plan.total <= plan.available ? "" : ", which is more than there is";
    const facts = `training all weights of ${name} needs about ${bytes(plan.total)}${alone}; an adapter (lora: true) ${bytes(adapter.total)}`;
    return [
      { name: "Model", status: "ok", detail: `${name}, ${quantity(plan.parameters)} parameters` },
      {
        name: "Memory",
        status: fits ? "ok" : "problem",
        detail: `${bytes(plan.available)} of ${bytes(totalmem())} available; ${facts}`,
        ...(!fits && {
          fix: "lower training.tokenBudget, or set training.recompute",
        }),
      },
    ];
  } catch (error) {
    return [
      {
        name: "Model",
        status: "problem",
        ...saidOf(error),
      },
      { name: "Memory", status: "ok", detail: `${bytes(availableMemory())} of ${bytes(totalmem())} available` },
    ];
  }
}

/** Weights without a tokenizer that fits them are of no use. */
async function checkTokenizer(dir: string): Promise<void> {
  const { loadChatTokenizer } = await import("../../policy/tokenizer/index.ts");
  const { engine } = await readModelConfig(dir);
  await loadChatTokenizer(await tokenizerSource(dir), { vocabSize: engine.vocab });
}

/** What is wrong with a model, and what the error itself says of how to mend it. */
function saidOf(error: unknown): Pick<Check, "detail" | "fix"> {
  const { message, hint } = StatesetError.isInstance(error) ? messageAndHint(error) : { message: messageOf(error) };
  const otherwise = "give a folder with config.json or a .gguf file, or leave --model out for the starter model";
  return { detail: message, fix: hint ?? otherwise };
}

/** Runs are written below the current folder. */
function checkDisk(cwd: string): Check {
  const dir = existsSync(join(cwd, "runs")) ? join(cwd, "runs") : cwd;
  try {
    accessSync(dir, constants.W_OK);
  } catch {
    return {
      name: "Disk",
      status: "problem",
      detail: `${dir} cannot be written to`,
      fix: `chmod u+w ${dir}, or change to another folder`,
    };
  }
  const { bavail, bsize } = statfsSync(dir);
  const free = bavail * bsize;
  const enough = free > 2 ** 30;
  return {
    name: "Disk",
    status: enough ? "ok" : "problem",
    detail: `${bytes(free)} free for runs`,
    ...(!enough && { fix: "npx stateset-agents runs prune --yes" }),
  };
}
