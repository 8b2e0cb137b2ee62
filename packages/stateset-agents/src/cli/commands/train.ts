import { type Command, Option } from "commander";
import { algorithmNames } from "../../algorithm/algorithms.ts";
import { trackerNames } from "../../project/names.ts";
import { profileNames } from "../../training/profiles.ts";
import { checkpointHelp } from "../checkpoint-path.ts";
import type { CliIo } from "../io.ts";
import type { TrainFlags } from "../train/flags.ts";
import { flag, notNegative, onceOnly, positiveNumber, rank, setting, wholeNumber } from "../values.ts";

interface PythonNames {
  modelName?: string;
  numEpisodes?: number;
}

export function addTrain(program: Command, io: CliIo): void {
  program
    .command("train")
    .description("Train the agent of a project.")
    .argument("[config]", "the same as --config")
    .option(
      "-c, --config <file>",
      "the configuration: stateset.config.ts, YAML or JSON (default: the one in this folder)",
    )
    .option("--name <name>", "the run's name; its folder is runs/<name>")
    .option("--resume [run]", "go on with a run, its folder or one of its checkpoints (default: the newest)")
    .option("--accept-changes", "go on with a run although the project has changed since")
    .option("--discard-later", "go on from an earlier checkpoint, removing what came after it")
    .option("--save <folder>", "also write the trained agent here")
    .option("--dry-run [bool]", "show the resolved plan with memory, disk and time, and train nothing", flag)
    .option("--stub", "use scripted replies instead of a model: everything runs, nothing is learnt")
    .addOption(new Option("--profile <name>", "where settings start from").choices(profileNames))
    .option("--auto-adjust", "act on the health of the run: learning rate, KL, temperature, scenario mix")
    .option("--no-auto-adjust", "only watch, also where the configuration says otherwise")
    .addOption(new Option("--tracker <name...>", "also write the run's numbers for another tool").choices(trackerNames))
    .option("--wandb-project <name>", "also write the run's numbers for Weights & Biases, under this project")
    .option("--model <model>", "a model folder or hub id instead of the configured one")
    .option("--checkpoint <folder>", `start from what was trained: ${checkpointHelp}`)
    .option("--lora [rank]", "train an adapter instead of all weights", rank)
    .option("--reward <path>", "score with this instead: a file (./reward.ts) or the run of a reward model")
    .option("--threads <n>", "threads of the embedded engine", wholeNumber)
    .addOption(new Option("--algorithm <name>", "the algorithm").choices(algorithmNames))
    .option("--seed <n>", "everything random follows from it", wholeNumber)
    .option("--steps <n>", "rounds of sampling and learning", wholeNumber)
    .option("--episodes <n>", "conversations in all, instead of --steps", wholeNumber)
    .option("--learning-rate <rate>", "the peak learning rate", positiveNumber)
    .option("--group-size <n>", "conversations sampled of each scenario", wholeNumber)
    .option("--groups-per-step <n>", "scenarios per step", wholeNumber)
    .option("--max-tokens <n>", "tokens per reply at most", wholeNumber)
    .option("--temperature <t>", "the sampling temperature", positiveNumber)
    .option("--kl <coefficient>", "the weight of the KL penalty", notNegative)
    .option("--set <name=value>", "any other setting, such as checkpoint.every=5; may be given several times", setting)
    .option("--skip-bad", "go on after scenarios that cannot be read, and say how many there were")
    .option("--json", "print one JSON object an event instead of the live view")
    .addOption(new Option("--model-name <model>").conflicts("model").hideHelp())
    .addOption(new Option("--num-episodes <n>").argParser(wholeNumber).conflicts("episodes").hideHelp())
    .addHelpText(
      "after",
      `
Ctrl-C drops the step under way, saves the steps done and prints how to go on; a second Ctrl-C stops at once.

Of the Python system's names, --model-name is --model and --num-episodes is --episodes.

Examples:
  npx stateset-agents train                          the project in this folder
  npx stateset-agents train --dry-run                what it would do, and what it would need
  npx stateset-agents train --resume                 go on with the newest run
  npx stateset-agents train --resume runs/a --name b a new run from where that one is; the old one is left alone
  npx stateset-agents train --checkpoint runs/taught start from what sft, dpo or another run trained
  npx stateset-agents train --stub                   try the plumbing without a model
  npx stateset-agents train --set evaluation.every=5 --kl 0.02`,
    )
    .action(async (config: string | undefined, given: TrainFlags & PythonNames) => {
      const { modelName, numEpisodes, ...flags } = given;
      const { runTrain } = await import("../train/run-train.ts");
      await runTrain(
        {
          ...flags,
          ...onceOnly("config", config, flags.config),
          ...(modelName !== undefined && { model: modelName }),
          ...(numEpisodes !== undefined && { episodes: numEpisodes }),
        },
        io,
      );
    });
}
