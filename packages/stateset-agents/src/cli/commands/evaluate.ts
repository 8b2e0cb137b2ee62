import type { Command } from "commander";
import type { EvaluateFlags } from "../evaluate/run-evaluate.ts";
import type { CliIo } from "../io.ts";
import { notNegative, wholeNumber } from "../values.ts";

export function addEvaluate(program: Command, io: CliIo): void {
  program
    .command("evaluate")
    .description(
      "Measure a trained agent, or compare two. Without --message, --input or --scenarios it asks for messages.",
    )
    .option(
      "--checkpoint <folder>",
      "a trained agent: a run (its name or folder, finished or not), one of its checkpoints (runs/a/checkpoints/step-000040, …/best, …/last), a model folder, `last` or `best` (of the newest run) or `starter` (default: the configured model)",
    )
    .option("--compare <folder>", "another one, to compare with by a paired test over scenarios")
    .option("--message <text>", "print the reply to one message")
    .option("--input <file>", "answer every message of a .json or .jsonl file (texts, or chats in the OpenAI format)")
    .option("--scenarios [file]", "play scenarios and score them (default: the project's held-out ones)")
    .option("-c, --config <file>", "the configuration that has the environment and the reward")
    .option("--samples <n>", "conversations per scenario (default: 4; 1 at temperature 0)", wholeNumber)
    .option("--seed <n>", "everything random follows from it", wholeNumber, 0)
    .option("--temperature <t>", "the sampling temperature; 0 is greedy", notNegative)
    .option("--max-tokens <n>", "tokens per reply at most", wholeNumber)
    .option("--threads <n>", "threads of the embedded engine", wholeNumber)
    .option("--output <file>", "also write the result here, as JSON")
    .option("--stub", "use scripted replies instead of a model")
    .option("--json", "print JSON instead of tables")
    .addHelpText(
      "after",
      `
Examples:
  stateset-agents evaluate --checkpoint runs/polite --scenarios
  stateset-agents evaluate --checkpoint starter --compare runs/polite --scenarios held-out.jsonl
  stateset-agents evaluate --checkpoint runs/polite --message "Where is my order?"`,
    )
    .action(async (flags: EvaluateFlags) => {
      const { runEvaluate } = await import("../evaluate/run-evaluate.ts");
      await runEvaluate(flags, io);
    });
}
