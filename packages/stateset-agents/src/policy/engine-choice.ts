import { StatesetError } from "../error.ts";
import type { EngineName } from "./engines.ts";
import type { TorchOptions } from "./torch/torch-options.ts";

/** An engine by name; the address of a worker names the torch engine there. */
export type EngineChoice = EngineName | `torch://${string}`;

interface Choice {
  engine?: EngineChoice | undefined;
  torch?: TorchOptions | undefined;
}

export function isAddress(engine: unknown): engine is `torch://${string}` {
  return typeof engine === "string" && engine.startsWith("torch://");
}

/** The same options with the engine by its name alone: `engine: "torch://host:port"` is short for its torch.url. */
export function withEngineName<O extends Choice>(options: O): Omit<O, "engine"> & { engine?: EngineName | undefined } {
  const { engine, ...rest } = options;
  if (!isAddress(engine)) return { ...rest, ...(engine !== undefined && { engine }) };
  const { torch } = options;
  if (torch?.url !== undefined && torch.url !== engine) {
    throw new StatesetError("INVALID_OPTION", `engine is ${engine}, and torch.url is ${torch.url}.`, {
      hint: "Give one of them.",
    });
  }
  return { ...rest, engine: "torch", torch: { ...torch, url: engine } };
}
