/** A GGUF file as other engines open it: a folder of safetensors in bf16, beside the file. */
import { existsSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { openPolicy } from "stateset-agents/policy";
import { isGguf, nameOf } from "./model.ts";

export async function asFolder(model: string): Promise<string> {
  if (!isGguf(model)) return model;
  const folder = join(dirname(model), nameOf(model));
  if (existsSync(folder)) return folder;
  console.error(`Writing ${folder}`);
  const making = `${folder}.making`;
  rmSync(making, { recursive: true, force: true });
  const policy = await openPolicy({ model });
  try {
    await policy.save(making, { dtype: "bf16" });
  } finally {
    await policy.close();
  }
  renameSync(making, folder);
  return folder;
}
