import { type Command, Option } from "commander";
import { preferenceShape } from "../../preference/train-preference.ts";
import type { CliIo } from "../io.ts";
import type { LearnFlags } from "../learn/flags.ts";
import { addDataOptions, addLearnOptions } from "../learn/options.ts";
import { positiveNumber } from "../values.ts";

export function addDpo(program: Command, io: CliIo): void {
  const command = program
    .command("dpo")
    .description("Teach the agent which replies are better, from preference pairs (DPO and its kin) or labels (KTO).");
  addDataOptions(
    command,
    "preference pairs as JSONL: prompt, chosen, rejected; with --loss kto also prompt, completion, label",
  );
  addLearnOptions(command)
    .addOption(new Option("--loss <name>", "the loss").choices(preferenceShape.loss.unwrap().options))
    .option("--beta <n>", "how far it may move from where it starts: smaller is further", positiveNumber)
    .addHelpText(
      "after",
      `
Ctrl-C saves the steps done and prints how to go on.

Examples:
  npx stateset-agents dpo --data pairs.jsonl --held-out others.jsonl --lora
  npx stateset-agents dpo --data pairs.jsonl --checkpoint taught --beta 0.3
  npx stateset-agents dpo --data pairs.jsonl --loss robust --set labelSmoothing=0.1
  npx stateset-agents dpo --data thumbs.jsonl --loss kto`,
    )
    .action(async (flags: LearnFlags) => {
      const { runDpo } = await import("../learn/commands.ts");
      await runDpo(flags, io);
    });
}
