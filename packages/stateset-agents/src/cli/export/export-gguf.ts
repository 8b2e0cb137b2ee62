import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs";
import { rm } from "node:fs/promises";
import { basename } from "node:path";
import { temporaryFor } from "../../durable.ts";
import { StatesetError } from "../../error.ts";
import { isGgufName } from "../../policy/gguf/find-gguf.ts";
import type { WritableType } from "../../policy/gguf/quantise.ts";
import { bytes, quantity } from "../../telemetry/format.ts";
import { type CliIo, colorsOf, print, printJson } from "../io.ts";
import { openAgent } from "../open-agent.ts";

export interface ExportGgufFlags {
  checkpoint: string;
  file: string;
  type: "f32" | "f16" | "q8_0";
  json: boolean;
}

/** The whole model goes to a folder beside the file first: that is what merges an adapter, whatever computes. */
export async function exportAsGguf({ checkpoint, file, type, json }: ExportGgufFlags, io: CliIo): Promise<void> {
  refuseOther(file);
  const folder = temporaryFor(file);
  try {
    const parameters = await saveWhole(checkpoint, folder, io);
    const { exportGguf } = await import("../../policy/gguf/export-gguf.ts");
    const name = basename(file).replace(/\.gguf$/i, "");
    const { halved } = await exportGguf({ dir: folder, file, type: type.toUpperCase() as WritableType, name });
    const { size } = statSync(file);
    if (json) return printJson(io, { file, type, parameters, bytes: size, halved });
    print(
      io,
      `${colorsOf(io).green("✓")} The model, ${quantity(parameters)} parameters, is in ${file} (${type}, ${bytes(size)}).`,
    );
    if (halved.length > 0) {
      print(io, `${halved.length} of its matrices have rows that are no multiple of 32, and are f16: ${halved[0]}, …`);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function saveWhole(checkpoint: string, folder: string, io: CliIo): Promise<number> {
  const agent = await openAgent(checkpoint, {}, io);
  try {
    await agent.save(folder, { merge: agent.policy.model.lora !== undefined });
    return agent.policy.model.parameters;
  } finally {
    await agent.close();
  }
}

function refuseOther(file: string): void {
  if (!isGgufName(file)) {
    throw new StatesetError("INVALID_OPTION", `--gguf is ${file}, which does not end in .gguf.`);
  }
  if (!existsSync(file) || isGguf(file)) return;
  throw new StatesetError("WRITE_FAILED", `${file} exists and is no GGUF file.`, {
    hint: "Name a file that is new, or a GGUF file to replace.",
  });
}

function isGguf(file: string): boolean {
  if (!statSync(file).isFile()) return false;
  const start = Buffer.alloc(4);
  const descriptor = openSync(file, "r");
  try {
    readSync(descriptor, start, 0, 4, 0);
  } finally {
    closeSync(descriptor);
  }
  return start.toString("latin1") === "GGUF";
}
