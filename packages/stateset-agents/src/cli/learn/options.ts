/** The flags that the commands for learning from data share. */
import { type Command, Option } from "commander";
import { trackerNames } from "../../project/names.ts";
import { checkpointHelp } from "../checkpoint-path.ts";
import { flag, positiveNumber, rank, setting, wholeNumber } from "../values.ts";

export function addRunOptions(command: Command): Command {
  return command
    .option(
      "-c, --config <file>",
      "the configuration: stateset.config.ts, YAML or JSON (default: the one in this folder, where there is one)",
    )
    .option("--name <name>", "the run's name; its folder is runs/<name>")
    .option("--resume [run]", "go on with a run, its folder or one of its checkpoints (default: the newest)")
    .option("--accept-changes", "go on with a run although the agent or the data has changed since")
    .option("--discard-later", "go on from an earlier checkpoint, removing what came after it")
    .option("--dry-run [bool]", "show the resolved plan, and train nothing", flag)
    .option("--model <model>", "a model folder or hub id instead of the configured one")
    .option("--checkpoint <folder>", `start from what was trained: ${checkpointHelp}`)
    .option("--lora [rank]", "train an adapter instead of all weights", rank)
    .option("--skip-bad", "go on after lines of data that cannot be read, and say how many there were")
    .option("--threads <n>", "threads of the embedded engine", wholeNumber)
    .addOption(new Option("--tracker <name...>", "also write the run's numbers for another tool").choices(trackerNames))
    .option("--seed <n>", "everything random follows from it", wholeNumber)
    .option("--epochs <n>", "passes over the data", wholeNumber)
    .option("--batch-size <n>", "examples per step", wholeNumber)
    .option("--learning-rate <rate>", "the peak learning rate", positiveNumber)
    .option("--set <name=value>", "any other setting, such as checkpoint.every=5; may be given several times", setting)
    .option("--json", "print one JSON object an event instead of the live view");
}

export function addDataOptions(command: Command, what: string): Command {
  return command
    .option("--data <file>", what)
    .option("--held-out <file>", "the same, to be measured on before and after");
}
