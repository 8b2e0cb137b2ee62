import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { writeFolderAtomic } from "../../durable.ts";
import { StatesetError } from "../../error.ts";
import { sizeOf } from "../../run/read-run.ts";
import { bytes, quantity } from "../../telemetry/format.ts";
import { type CliIo, colorsOf, print, printJson } from "../io.ts";
import { openAgent } from "../open-agent.ts";

export interface ExportOptions {
  checkpoint: string;
  folder: string;
  merge: boolean;
  json: boolean;
}

export async function exportAgent({ checkpoint, folder, merge, json }: ExportOptions, io: CliIo): Promise<void> {
  refuseOther(folder);
  const agent = await openAgent(checkpoint, {}, io);
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
    await writeFolderAtomic(folder, (temporary) => agent.save(temporary, { merge }));
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

/** A folder of something else was named by mistake more often than on purpose. */
function refuseOther(folder: string): void {
  if (!existsSync(folder) || readdirSync(folder).length === 0) return;
  if (["config.json", "adapter_config.json"].some((name) => existsSync(join(folder, name)))) return;
  throw new StatesetError("WRITE_FAILED", `${folder} exists and holds no model.`, {
    hint: "Name a folder that is new or empty, or one that an export wrote.",
  });
}
