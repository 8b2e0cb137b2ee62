/** What the command line says of where an agent's model computes. */
import type { AgentOptions } from "../agent/agent-options.ts";
import { StatesetError } from "../error.ts";
import { type EngineChoice, isAddress } from "../policy/engine-choice.ts";

export interface EngineFlags {
  engine?: EngineChoice | undefined;
  /** Of this machine; 0: PyTorch on the CPU. */
  gpus?: number | undefined;
  threads?: number | undefined;
}

type Placed = Pick<AgentOptions, "engine" | "torch" | "threads">;

/** The agent's options of that kind, with the flags over them. */
export function onEngine(own: Placed, { engine, gpus, threads }: EngineFlags, stub = false): Placed {
  if (stub && (engine !== undefined || gpus !== undefined)) {
    throw invalid("--stub plays scripted replies: no engine computes them.", "Leave --engine and --gpus out.");
  }
  const chosen = engine ?? own.engine;
  const torch = engine === undefined ? own.torch : torchFor(engine, own.torch);
  if (gpus !== undefined && (isAddress(chosen) || torch?.url !== undefined)) {
    throw invalid("--gpus is for workers that are started here.", "One at an address has those it was started with.");
  }
  if (gpus !== undefined && chosen !== "torch") {
    throw invalid("--gpus counts those that the torch engine computes on.", "Add --engine torch.");
  }
  const { device: _, gpus: __, ...kept } = torch ?? {};
  const counted = gpus === 0 ? { ...kept, device: "cpu" as const } : { ...kept, gpus };
  // Said of the embedded engine; how fast it is does not matter to another.
  const moved = (engine === "torch" || isAddress(engine)) && own.engine !== engine;
  return {
    engine: chosen,
    torch: gpus === undefined ? torch : counted,
    threads: threads ?? (moved ? undefined : own.threads),
  };
}

/** Of the configured options those that mean something to the engine that is named instead. */
function torchFor(engine: EngineChoice, own: AgentOptions["torch"] = {}): AgentOptions["torch"] {
  const { url, tls, gpus, device, python, ...both } = own;
  if (engine === "torch") return { ...both, gpus, device, python };
  return isAddress(engine) ? { ...both, tls } : undefined;
}

function invalid(what: string, hint: string): StatesetError {
  return new StatesetError("INVALID_OPTION", what, { hint });
}
