import { resolve } from "node:path";
import { z } from "zod";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { copyTokenizer } from "../files.ts";
import type { Policy, WeightsChange } from "../policy.ts";
import { loadedVersion } from "../version.ts";
import { filesOf, type Reply } from "./reply.ts";
import type { TorchCore } from "./torch-core.ts";

const saveSchema = z.strictObject({ merge: z.boolean().optional(), dtype: z.enum(["f32", "bf16"]).optional() });

/** Weights to files and back. The worker writes and reads them: under the same path, on a file system that both see. */
export function createStoredWeights(core: TorchCore): Pick<Policy, "save" | "load" | "snapshot" | "restore"> {
  const { lora, base, tokenizerFiles } = core.parts;

  const changed = async (reply: Reply, version: string): Promise<WeightsChange> => {
    if (reply.flag("valueHead")) core.valueHead = true;
    return { version: await core.names.name(reply.count("count"), () => version), drained: reply.flag("drained") };
  };

  return {
    save: (dir, options = {}) =>
      core.run(async () => {
        const { merge = false, dtype } = parseOptions(saveSchema, options, "save()");
        if (lora && !merge && dtype !== undefined) {
          throw new StatesetError("INVALID_OPTION", "save() is given a dtype for an adapter, which is always f32.", {
            hint: "Leave dtype out, or merge the adapter into its base model.",
          });
        }
        // A path is named in full: the adapter will be loaded from elsewhere. A hub id stays as it is.
        const baseName = resolve(base.name) === resolve(base.dir) ? resolve(base.dir) : base.name;
        await core.call("save", { dir: resolve(dir), merge, dtype: dtype ?? "f32", base: baseName });
        await copyTokenizer(tokenizerFiles, dir);
      }),
    load: (dir) =>
      core.run(async () => {
        const reply = await core.call("load", { dir: resolve(dir) });
        return changed(reply, loadedVersion(reply.text("digest")));
      }),
    snapshot: (dir) =>
      core.run(async () => filesOf(await core.call("snapshot", { dir: resolve(dir), version: core.names.now }))),
    restore: (dir) =>
      core.run(async () => {
        const reply = await core.call("restore", { dir: resolve(dir) });
        return changed(reply, reply.text("version"));
      }),
  };
}
