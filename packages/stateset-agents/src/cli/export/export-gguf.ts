import { existsSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { StatesetError } from "../../error.ts";
import { beginsAsGguf, isGgufName } from "../../policy/gguf/find-gguf.ts";
import type { WritableType } from "../../policy/gguf/quantise.ts";
import { createProgressBar } from "../../policy/hub/progress-bar.ts";
import { resolveModel } from "../../policy/hub/resolve-model.ts";
import { parameterCount } from "../../policy/native/memory.ts";
import { readModelConfig } from "../../policy/native/model-config.ts";
import type { GgufType, SaveGgufOptions } from "../../policy/policy.ts";
import { findAgent, requireConversations } from "../../run/load-agent.ts";
import { bytes, quantity } from "../../telemetry/format.ts";
import { checkpointPath } from "../checkpoint-path.ts";
import { type CliIo, colorsOf, print, printJson } from "../io.ts";
import { openToExport } from "../open-agent.ts";

export interface ExportGgufFlags {
  checkpoint: string;
  file: string;
  type: GgufType;
  json: boolean;
}

export async function exportAsGguf({ checkpoint, file, type, json }: ExportGgufFlags, io: CliIo): Promise<void> {
  await refuseOther(file);
  const place = findAgent(checkpointPath(checkpoint, io));
  const isWhole = place.kind === "model" && !existsSync(join(place.dir, "adapter_config.json"));
  const onProgress = progressOf(file, io);
  const { parameters, halved } = await (isWhole
    ? fromFiles(place.dir, file, { type, onProgress })
    : fromAgent(checkpoint, file, { type, onProgress }, io));
  const { size } = statSync(file);
  if (json) return printJson(io, { file, type, parameters, bytes: size, halved });
  print(
    io,
    `${colorsOf(io).green("✓")} The model, ${quantity(parameters)} parameters, is in ${file} (${type}, ${bytes(size)}).`,
  );
  if (halved.length > 0) {
    print(io, `${halved.length} of its matrices have rows that are no multiple of 32, and are f16: ${halved[0]}, …`);
  }
}

type Writing = Required<SaveGgufOptions>;

/** A large model takes minutes, and a person sees that it goes on. */
function progressOf(file: string, { stderr, env }: CliIo): Writing["onProgress"] {
  if (!stderr.isTTY || env.TERM === "dumb") return () => {};
  const draw = createProgressBar(stderr);
  return (progress) => draw({ model: basename(file), ...progress });
}

interface Exported {
  parameters: number;
  halved: string[];
}

/** Whole weights need no engine, and no more memory than one tensor. */
async function fromFiles(dir: string, file: string, { type, onProgress }: Writing): Promise<Exported> {
  requireConversations(dir);
  const { dir: model } = await resolveModel(dir);
  const { exportGguf, ggufTitle } = await import("../../policy/gguf/export-gguf.ts");
  const { engine } = await readModelConfig(model);
  const name = ggufTitle(file);
  const written = await exportGguf({ dir: model, file, type: type.toUpperCase() as WritableType, name, onProgress });
  return { ...written, parameters: parameterCount(engine) };
}

/** What was trained lies beside its base model: they are opened together, and merged tensor by tensor. */
async function fromAgent(checkpoint: string, file: string, options: Writing, io: CliIo): Promise<Exported> {
  const agent = await openToExport(checkpoint, io);
  try {
    const { model, saveGguf } = agent.policy;
    if (!saveGguf) throw new StatesetError("MODEL_UNSUPPORTED", `${model.name} cannot be written as a GGUF file.`);
    return { ...(await saveGguf(file, options)), parameters: model.parameters };
  } finally {
    await agent.close();
  }
}

async function refuseOther(file: string): Promise<void> {
  if (!isGgufName(file)) {
    throw new StatesetError("INVALID_OPTION", `--gguf is ${file}, which does not end in .gguf.`);
  }
  if (!existsSync(file) || (await beginsAsGguf(file))) return;
  throw new StatesetError("WRITE_FAILED", `${file} exists and is no GGUF file.`, {
    hint: "Name a file that is new, or a GGUF file to replace.",
  });
}
