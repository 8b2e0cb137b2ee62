import { resolve } from "node:path";
import type { Command } from "commander";
import type { CliIo } from "../io.ts";

interface ExportFlags {
  merge?: boolean;
  json?: boolean;
}

export function addExport(program: Command, io: CliIo): void {
  program
    .command("export")
    .description("Write a trained agent as a model other programs open: Hugging Face layout, or PEFT for an adapter.")
    .argument("<checkpoint>", "a run, one of its checkpoints, a model folder, `last` or `best`: see chat --checkpoint")
    .argument("<folder>", "where to; what is there is replaced once the new model is complete")
    .option("--merge", "add an adapter into the weights of its base model, so that it needs nothing beside it")
    .option("--json", "print the result as JSON")
    .action(async (checkpoint: string, folder: string, { merge = false, json = false }: ExportFlags) => {
      const { exportAgent } = await import("../export/export-agent.ts");
      await exportAgent({ checkpoint, folder: resolve(io.cwd, folder), merge, json }, io);
    });
}
