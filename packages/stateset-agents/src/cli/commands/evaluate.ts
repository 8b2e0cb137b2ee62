import { type Command, Option } from "commander";
import { checkpointHelp } from "../checkpoint-path.ts";
import { engineOption, gpusOption } from "../engine-options.ts";
import type { EvaluateFlags } from "../evaluate/run-evaluate.ts";
import type { CliIo } from "../io.ts";
import { notNegative, onceOnly, wholeNumber } from "../values.ts";

interface PythonNames {
  numEpisodes?: number;
  scenariosFile?: string;
  outputFile?: string;
}

export function addEvaluate(program: Command, io: CliIo): void {
  program
    .command("evaluate")
    .description(
      "Measure a trained agent, or compare two. Without --message, --input or --scenarios it asks for messages.",
    )
    .argument("[checkpoint]", "the same as --checkpoint")
    .option("--checkpoint <folder>", `a trained agent: ${checkpointHelp} (default: the configured model)`)
    .option("--compare <folder>", "another one, to compare with by a paired test over scenarios")
    .option("--message <text>", "print the reply to one message")
    .option("--input <file>", "answer every message of a .json or .jsonl file (texts, or chats in the OpenAI format)")
    .option("--scenarios [file]", "play scenarios and score them (default: the project's held-out ones)")
    .option("-c, --config <file>", "the configuration that has the environment and the reward")
    .option("--reward <path>", "score with this instead: a file (./reward.ts) or the run of a reward model")
    .option(
      "--samples <n>",
      "conversations per scenario (default: 4; 1 of a model of 100M parameters and more, and at temperature 0)",
      wholeNumber,
    )
    .option("--episodes <n>", "conversations in all, at least; instead of --samples", wholeNumber)
    .option("--seed <n>", "everything random follows from it", wholeNumber, 0)
    .option("--temperature <t>", "the sampling temperature; 0 is greedy", notNegative)
    .option("--max-tokens <n>", "tokens per reply at most", wholeNumber)
    .option("--constrain", "hold the calls of tools to their schemas while they are sampled")
    .option("--model <model>", "a model folder, GGUF file or hub id instead of the configured one")
    .addOption(engineOption())
    .addOption(gpusOption())
    .option("--threads <n>", "threads of the embedded engine", wholeNumber)
    .option("--output <file>", "also write the result here, as JSON")
    .option("--stub", "use scripted replies instead of a model")
    .option("--skip-bad", "go on after scenarios that cannot be read, and say how many there were")
    .option("--json", "print JSON instead of tables")
    .addOption(new Option("--num-episodes <n>").argParser(wholeNumber).conflicts("episodes").hideHelp())
    .addOption(new Option("--scenarios-file <file>").conflicts("scenarios").hideHelp())
    .addOption(new Option("--output-file <file>").conflicts("output").hideHelp())
    .addHelpText(
      "after",
      `
Of the Python system's names, --num-episodes is --episodes, --scenarios-file is --scenarios and --output-file is --output.

Examples:
  npx stateset-agents evaluate --checkpoint runs/polite --scenarios
  npx stateset-agents evaluate --checkpoint starter --compare runs/polite --scenarios held-out.jsonl
  npx stateset-agents evaluate --checkpoint runs/polite --message "Where is my order?"`,
    )
    .action(async (checkpoint: string | undefined, given: EvaluateFlags & PythonNames) => {
      const { numEpisodes, scenariosFile, outputFile, ...flags } = given;
      const { runEvaluate } = await import("../evaluate/run-evaluate.ts");
      await runEvaluate(
        {
          ...flags,
          ...onceOnly("checkpoint", checkpoint, flags.checkpoint),
          ...(numEpisodes !== undefined && { episodes: numEpisodes }),
          ...(scenariosFile !== undefined && { scenarios: scenariosFile }),
          ...(outputFile !== undefined && { output: outputFile }),
        },
        io,
      );
    });
}
