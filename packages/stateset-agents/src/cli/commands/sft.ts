import type { Command } from "commander";
import type { CliIo } from "../io.ts";
import type { LearnFlags } from "../learn/flags.ts";
import { addDataOptions, addLearnOptions } from "../learn/options.ts";
import { finiteNumber } from "../values.ts";

export function addSft(program: Command, io: CliIo): void {
  const command = program
    .command("sft")
    .description("Teach the agent to imitate conversations (supervised fine-tuning).");
  addDataOptions(command, "chats as JSONL, or the folder of a run, whose conversations are learnt from");
  addLearnOptions(command)
    .option("--min-reward <score>", "of a run's conversations: only those with this reward or more", finiteNumber)
    .addHelpText(
      "after",
      `
Ctrl-C saves the steps done and prints how to go on.

Examples:
  npx stateset-agents sft --data chats.jsonl --lora --name taught
  npx stateset-agents sft --data runs/polite --min-reward 0.8
  npx stateset-agents dpo --data pairs.jsonl --checkpoint taught       goes on with its adapter
  npx stateset-agents sft --resume                                     go on with the newest run`,
    )
    .action(async (flags: LearnFlags) => {
      const { runSft } = await import("../learn/commands.ts");
      await runSft(flags, io);
    });
}
