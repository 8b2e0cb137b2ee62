/** The flags that every command that makes runs has. */
import { type Command, Option } from "commander";
import { trackerNames } from "../../project/names.ts";
import { checkpointHelp } from "../checkpoint-path.ts";
import { engineOption, gpusOption } from "../engine-options.ts";
import { flag, positiveNumber, rank, setting, wholeNumber } from "../values.ts";

/** What differs in their words. */
export interface RunWords {
  /** Which configuration is taken where none is named. */
  config: string;
  /** What may have changed since a run began. */
  changed: string;
  /** What --skip-bad passes over. */
  bad: string;
}

export function addRunOptions(command: Command, { config, changed, bad }: RunWords): Command {
  return command
    .option("-c, --config <file>", `the configuration: stateset.config.ts, YAML or JSON (default: ${config})`)
    .option("--name <name>", "the run's name; its folder is runs/<name>")
    .option("--resume [run]", "go on with a run, its folder or one of its checkpoints (default: the newest)")
    .option("--accept-changes", `go on with a run although ${changed} since`)
    .option("--discard-later", "go on from an earlier checkpoint, removing what came after it")
    .option("--dry-run [bool]", "show the resolved plan and what it needs, and train nothing", flag)
    .option("--model <model>", "a model folder, GGUF file or hub id instead of the configured one")
    .option("--checkpoint <folder>", `start from what was trained: ${checkpointHelp}`)
    .option("--lora [rank]", "train an adapter instead of all weights", rank)
    .option("--skip-bad", `go on after ${bad} that cannot be read, and say how many there were`)
    .addOption(engineOption())
    .addOption(gpusOption())
    .option("--threads <n>", "threads of the embedded engine", wholeNumber)
    .addOption(new Option("--tracker <name...>", "also write the run's numbers for another tool").choices(trackerNames))
    .option("--seed <n>", "everything random follows from it", wholeNumber)
    .option("--learning-rate <rate>", "the peak learning rate", positiveNumber)
    .option("--set <name=value>", "any other setting, such as checkpoint.every=5; may be given several times", setting)
    .option("--json", "print one JSON object an event instead of the live view");
}
