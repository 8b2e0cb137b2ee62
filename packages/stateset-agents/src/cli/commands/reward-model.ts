import type { Command } from "commander";
import type { CliIo } from "../io.ts";
import type { LearnFlags } from "../learn/flags.ts";
import { addDataOptions, addLearnOptions } from "../learn/options.ts";

export function addRewardModel(program: Command, io: CliIo): void {
  const command = program
    .command("reward-model")
    .description("Train a model that scores conversations, from preference pairs or from good and bad ones.");
  addDataOptions(command, 'preference pairs as JSONL, or {"messages": […], "good": true} a line');
  addLearnOptions(command)
    .addHelpText(
      "after",
      `
Ctrl-C saves the steps done and prints how to go on.

Examples:
  npx stateset-agents reward-model --data pairs.jsonl --held-out others.jsonl --name taste
  npx stateset-agents train --reward taste                    train with what it says`,
    )
    .action(async (flags: LearnFlags) => {
      const { runRewardModel } = await import("../learn/commands.ts");
      await runRewardModel(flags, io);
    });
}
