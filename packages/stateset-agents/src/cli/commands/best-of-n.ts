import type { Command } from "commander";
import type { CliIo } from "../io.ts";
import type { LearnFlags } from "../learn/flags.ts";
import { addLearnOptions } from "../learn/options.ts";
import { finiteNumber, wholeNumber } from "../values.ts";

export function addBestOfN(program: Command, io: CliIo): void {
  const command = program
    .command("best-of-n")
    .description("Sample several conversations of each scenario, keep the best by reward, and imitate those.");
  addLearnOptions(command)
    .option("--n <n>", "conversations sampled of each scenario", wholeNumber)
    .option("--keep <n>", "how many of them are kept at most", wholeNumber)
    .option("--min-reward <score>", "conversations below this are never kept", finiteNumber)
    .option("--reward <path>", "score with this instead: a file (./reward.ts) or the run of a reward model")
    .addHelpText(
      "after",
      `
What is kept lies in runs/<name>/harvest. Ctrl-C saves what was sampled and learnt, and prints how to go on.

Examples:
  npx stateset-agents best-of-n --n 16 --lora --name best
  npx stateset-agents sft --data best --checkpoint starter          learn once more from what was kept`,
    )
    .action(async (flags: LearnFlags) => {
      const { runBestOfN } = await import("../learn/commands.ts");
      await runBestOfN(flags, io);
    });
}
