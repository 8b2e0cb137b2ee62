import { isAbsolute, join, resolve } from "node:path";
import { StatesetError } from "../error.ts";
import { ggufAt } from "./gguf/find-gguf.ts";
import type { ResolveOptions } from "./hub/resolve-model.ts";
import { exists } from "./what-lies-at.ts";

/** The base of an adapter: a folder, a GGUF file or the folder of one (also relative to the adapter's folder), or a hub id. */
export async function resolveBase(
  base: string,
  adapterDir: string,
  hub: ResolveOptions | undefined,
): Promise<{ dir: string; name: string }> {
  const candidates = isAbsolute(base) ? [base] : [resolve(base), resolve(adapterDir, base)];
  for (const dir of candidates) {
    const found = (await exists(join(dir, "config.json"))) ? dir : await ggufAt(dir);
    if (found !== undefined) return { dir: found, name: base };
  }
  if (isAbsolute(base)) {
    throw new StatesetError("MODEL_NOT_FOUND", `The adapter in ${adapterDir} needs its base model at ${base}.`, {
      hint: "Put the model there, or correct base_model_name_or_path in adapter_config.json.",
    });
  }
  const { resolveModel } = await import("./hub/resolve-model.ts");
  return resolveModel(base, hub);
}
