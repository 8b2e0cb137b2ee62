/** The flags of every command that opens a model: what computes. */
import { InvalidArgumentError, Option } from "commander";
import { type EngineChoice, isAddress } from "../policy/engine-choice.ts";
import { didYouMean } from "../suggest.ts";
import { wholeNumber } from "./values.ts";

/** The stub is a flag of its own. */
const names = ["native", "torch"] as const;

export function engineOption(): Option {
  const choices = "native, the embedded engine; torch, PyTorch on GPUs of this machine; or torch://host:port";
  return new Option("--engine <name>", `what computes: ${choices} (default: the configured one, or native)`).argParser(
    engine,
  );
}

export function gpusOption(): Option {
  const what = "GPUs that the torch engine computes on; 0: on the processor (default: 1)";
  return new Option("--gpus <n>", what).argParser(wholeNumber);
}

function engine(text: string): EngineChoice {
  const name = names.find((one) => one === text);
  if (name !== undefined) return name;
  if (isAddress(text)) return text;
  throw new InvalidArgumentError(didYouMean(text, [...names, "torch://host:port"]));
}
