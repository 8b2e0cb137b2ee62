import type { Command } from "commander";
import type { ChatFlags } from "../chat/run-chat.ts";
import { checkpointHelp } from "../checkpoint-path.ts";
import { engineOption, gpusOption } from "../engine-options.ts";
import type { CliIo } from "../io.ts";
import { notNegative, wholeNumber } from "../values.ts";

export function addChat(program: Command, io: CliIo): void {
  program
    .command("chat")
    .description("Talk to an agent, or to two side by side.")
    .option(
      "--checkpoint <folder...>",
      `a trained agent: ${checkpointHelp}; two for side by side (default: the configured model)`,
    )
    .option("-c, --config <file>", "the configuration that names the model")
    .option("--temperature <t>", "the sampling temperature; 0 is greedy", notNegative)
    .option("--max-tokens <n>", "tokens per reply at most", wholeNumber)
    .option("--constrain", "hold the calls of tools to their schemas while they are sampled")
    .option("--seed <n>", "makes replies repeatable", wholeNumber)
    .option("--model <model>", "a model folder, GGUF file or hub id instead of the configured one")
    .addOption(engineOption())
    .addOption(gpusOption())
    .option("--threads <n>", "threads of the embedded engine", wholeNumber)
    .option("--stub", "use scripted replies instead of a model")
    .option("--json", "print each reply as JSON")
    .addHelpText(
      "after",
      `
In the chat: /help lists what it knows, /reset starts anew, /undo takes back the last exchange, /exit leaves. Ctrl-C stops a reply.
A conversation that outgrows the model goes on without its oldest messages, unless the agent has a contextWindow of its own.
Lines on standard input work too: echo "Where is my order?" | npx stateset-agents chat`,
    )
    .action(async (flags: ChatFlags) => {
      const { runChat } = await import("../chat/run-chat.ts");
      await runChat(flags, io);
    });
}
