import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { StatesetError } from "../../error.ts";
import type { GgufType } from "../../policy/policy.ts";
import type { CliIo } from "../io.ts";

interface ExportFlags {
  merge?: boolean;
  dtype?: "f32" | "bf16";
  gguf?: string;
  type?: GgufType;
  json?: boolean;
}

export function addExport(program: Command, io: CliIo): void {
  program
    .command("export")
    .description(
      "Write a trained agent as a model other programs open: Hugging Face layout, PEFT for an adapter, or a GGUF file for llama.cpp and Ollama.",
    )
    .argument(
      "<checkpoint>",
      "a run, one of its checkpoints, a model folder or GGUF file, `last` or `best`: see chat --checkpoint",
    )
    .argument("[folder]", "where to, unless --gguf says it; what is there is replaced once the new model is complete")
    .option("--merge", "add an adapter into the weights of its base model, so that it needs nothing beside it")
    .addOption(
      new Option("--dtype <dtype>", "how whole weights are stored in a folder: f32 (default) or bf16").choices([
        "f32",
        "bf16",
      ]),
    )
    .option("--gguf <file>", "write one GGUF file instead of a folder; an adapter is merged")
    .addOption(
      new Option("--type <type>", "of the matrices in the GGUF file: f32, f16 (default) or q8_0").choices([
        "f32",
        "f16",
        "q8_0",
      ]),
    )
    .option("--json", "print the result as JSON")
    .action(async (checkpoint: string, folder: string | undefined, flags: ExportFlags) => {
      const { merge = false, dtype, gguf, type, json = false } = flags;
      if ((folder === undefined) === (gguf === undefined)) {
        throw new StatesetError("INVALID_OPTION", "export wants a folder or --gguf FILE, one of them.", {
          hint: "For example: stateset-agents export last my-model, or: stateset-agents export last --gguf my-model.gguf",
        });
      }
      refuse(gguf === undefined ? { type } : { merge: merge || undefined, dtype }, gguf !== undefined);
      if (gguf !== undefined) {
        const { exportAsGguf } = await import("../export/export-gguf.ts");
        return exportAsGguf({ checkpoint, file: resolve(io.cwd, gguf), type: type ?? "f16", json }, io);
      }
      const { exportAgent } = await import("../export/export-agent.ts");
      await exportAgent({ checkpoint, folder: resolve(io.cwd, folder!), merge, dtype, json }, io);
    });
}

/** Flags of the other form. */
function refuse(flags: Record<string, unknown>, isGguf: boolean): void {
  const given = Object.keys(flags).find((name) => flags[name] !== undefined);
  if (given === undefined) return;
  throw new StatesetError(
    "INVALID_OPTION",
    isGguf
      ? `--${given} is for a folder; a GGUF file is always merged, and --type says how it is stored.`
      : `--${given} is for --gguf.`,
  );
}
