/** The flags that the commands for learning from data share. */
import type { Command } from "commander";
import { addRunOptions } from "../run/options.ts";
import { wholeNumber } from "../values.ts";

export function addLearnOptions(command: Command): Command {
  const words = {
    config: "the one in this folder, where there is one",
    changed: "the agent or the data has changed",
    bad: "lines of data",
  };
  return addRunOptions(command, words)
    .option("--epochs <n>", "passes over the data", wholeNumber)
    .option("--batch-size <n>", "examples per step", wholeNumber);
}

export function addDataOptions(command: Command, what: string): Command {
  return command
    .option("--data <file>", what)
    .option("--held-out <file>", "the same, to be measured on before and after");
}
