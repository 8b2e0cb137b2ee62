import { type Command, Option } from "commander";
import { algorithmNames } from "../../algorithm/algorithms.ts";
import { profileNames } from "../../training/profiles.ts";
import type { CliIo } from "../io.ts";
import { addRunOptions } from "../run/options.ts";
import type { TrainFlags } from "../train/flags.ts";
import { notNegative, onceOnly, positiveNumber, wholeNumber } from "../values.ts";

interface PythonNames {
  modelName?: string;
  numEpisodes?: number;
}

export function addTrain(program: Command, io: CliIo): void {
  const command = program
    .command("train")
    .description("Train the agent of a project.")
    .argument("[config]", "the same as --config");
  const words = {
    config: "the one in this folder",
    changed: "the project has changed",
    bad: "scenarios",
  };
  addRunOptions(command, words)
    .option("--save <folder>", "also write the trained agent here")
    .option("--stub", "use scripted replies instead of a model: everything runs, nothing is learnt")
    .addOption(new Option("--profile <name>", "where settings start from").choices(profileNames))
    .option("--auto-adjust", "act on the health of the run: learning rate, KL, temperature, scenario mix")
    .option("--no-auto-adjust", "only watch, also where the configuration says otherwise")
    .option("--wandb-project <name>", "also write the run's numbers for Weights & Biases, under this project")
    .option("--reward <path>", "score with this instead: a file (./reward.ts) or the run of a reward model")
    .addOption(new Option("--algorithm <name>", "the algorithm").choices(algorithmNames))
    .option("--steps <n>", "rounds of sampling and learning", wholeNumber)
    .option("--episodes <n>", "conversations in all, instead of --steps", wholeNumber)
    .option("--group-size <n>", "conversations sampled of each scenario", wholeNumber)
    .option("--groups-per-step <n>", "scenarios per step", wholeNumber)
    .option("--max-tokens <n>", "tokens per reply at most", wholeNumber)
    .option("--temperature <t>", "the sampling temperature", positiveNumber)
    .option(
      "--constrain",
      "hold the calls of tools to their schemas while they are sampled; tokens left without a choice do not learn",
    )
    .option("--kl <coefficient>", "the weight of the KL penalty", notNegative)
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
