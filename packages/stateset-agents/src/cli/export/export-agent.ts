import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { writeFolderAtomic } from "../../durable.ts";
import { StatesetError } from "../../error.ts";
import { sizeOf } from "../../run/read-run.ts";
import { bytes, quantity } from "../../telemetry/format.ts";
import { type CliIo, colorsOf, print, printJson } from "../io.ts";
import { openToExport } from "../open-agent.ts";

export interface ExportOptions {
  checkpoint: string;
  folder: string;
  merge: boolean;
  dtype: "f32" | "bf16" | undefined;
  json: boolean;
}

export async function exportAgent({ checkpoint, folder, merge, dtype, json }: ExportOptions, io: CliIo): Promise<void> {
  refuseOther(folder);
  const agent = await openToExport(checkpoint, io);
  try {
    const { lora, parameters } = agent.policy.model;
    if (merge && !lora) {
      throw new StatesetError(
        "INVALID_OPTION",
        `${checkpoint} has no adapter to merge: its weights are whole already.`,
        {
          hint: "Leave --merge out.",
        },
      );
    }
    await writeFolderAtomic(folder, (temporary) => agent.save(temporary, { merge, ...(dtype && { dtype }) }));
    const kind = lora && !merge ? "adapter" : "model";
    const size = sizeOf(folder);
    if (json) printJson(io, { folder, kind, parameters, bytes: size });
    else {
      const what = kind === "adapter" ? "The adapter" : `The model, ${quantity(parameters)} parameters,`;
      print(io, `${colorsOf(io).green("✓")} ${what} is in ${folder} (${bytes(size)}).`);
    }
  } finally {
    await agent.close();
  }
}

/** Replaces nothing but what an export wrote: what else lies there was named by mistake. */
function refuseOther(folder: string): void {
  if (!existsSync(folder)) return;
  const foreign = statSync(folder).isDirectory()
    ? readdirSync(folder).find((name) => !isModelFile(folder, name))
    : "a file";
  if (foreign === undefined) return;
  throw new StatesetError("WRITE_FAILED", `${folder} exists and holds more than a model: ${foreign}.`, {
    hint: "Name a folder that is new or empty, or one that an export wrote.",
  });
}

function isModelFile(folder: string, name: string): boolean {
  const written =
    /^(?:(?:adapter_|generation_|tokenizer_)?config|tokenizer|agent|model\.safetensors\.index|special_tokens_map|added_tokens)\.json$|\.safetensors$|^chat_template\.jinja$|^README\.md$/;
  return (
    written.test(name) &&
    statSync(join(folder, name)).isFile() &&
    !(name === "config.json" && !isModelConfig(join(folder, name)))
  );
}

/** A run, and many a program, has a config.json too. */
function isModelConfig(path: string): boolean {
  try {
    return "model_type" in (JSON.parse(readFileSync(path, "utf8")) as object);
  } catch {
    return false;
  }
}
