import { type Command, Option } from "commander";
import type { InitFlags } from "../init/run-init.ts";
import { templateNames } from "../init/templates.ts";
import type { CliIo } from "../io.ts";

export function addInit(program: Command, io: CliIo): void {
  program
    .command("init")
    .description("Make a small project that trains at once.")
    .argument("[folder]", "where to put it")
    .addOption(new Option("--template <name>", "what the agent does").choices(templateNames))
    .option("--model <model>", "a model folder, GGUF file or hub id (default: the bundled starter model)")
    .option("--path <path>", "like the argument; a path that ends in .yaml writes a single configuration file")
    .option("--yes", "ask nothing, take the defaults")
    .option("--force", "write into a folder that has files, over files of the same name")
    .option("--json", "print the files as JSON")
    .action(async (folder: string | undefined, flags: InitFlags) => {
      const { runInit } = await import("../init/run-init.ts");
      await runInit(folder, flags, io);
    });
}
