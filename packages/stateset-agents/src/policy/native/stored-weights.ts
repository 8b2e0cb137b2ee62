import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import type { WeightsLoad } from "@stateset-agents/engine";
import { z } from "zod";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { copyTokenizer } from "../files.ts";
import { ggufTitle, writeModelAsGguf } from "../gguf/export-gguf.ts";
import { isGgufFile } from "../gguf/find-gguf.ts";
import type { WritableType } from "../gguf/quantise.ts";
import type { Policy, SaveGgufOptions, Version, WeightsChange } from "../policy.ts";
import { loadedVersion } from "../version.ts";
import { foresee } from "./memory.ts";
import { mergeInto } from "./merge.ts";
import type { NativeCore } from "./native-core.ts";
import { saveAdapter } from "./peft.ts";
import { mismatch, readSnapshotState, writeSnapshot } from "./snapshot.ts";
import { placesOf, SnapshotTensors, trainedKinds } from "./snapshot-tensors.ts";
import type { TensorPlace } from "./tensor-names.ts";
import { openWeightSource } from "./weight-source.ts";
import { saveValueHead, saveWeights, wholeTensor } from "./weights.ts";

const ggufSchema = z.strictObject({
  type: z.enum(["f32", "f16", "q8_0"]).optional(),
  onProgress: z
    .custom<SaveGgufOptions["onProgress"]>((value) => typeof value === "function", "not a function")
    .optional(),
});
const saveSchema = z.strictObject({ merge: z.boolean().optional(), dtype: z.enum(["f32", "bf16"]).optional() });

/** Weights to files and back. What is saved is one version; what is loaded becomes the present one as a whole. */
export function createStoredWeights(
  core: NativeCore,
): Pick<Required<Policy>, "save" | "saveGguf" | "load" | "snapshot" | "restore"> {
  const { name, base, tokenizerFiles, config, model, adapter, moments } = core.parts;
  const { engine, architecture } = config;

  const { saving } = core.needs;
  /** Before anything is written. */
  const foreseeSaving = (bytes: number) =>
    foresee(bytes, `Saving ${name}, whose largest tensor is copied for it,`, "Close other programs, or use LoRA.");

  /** Fills a load and commits it: whoever samples sees all of it or nothing. */
  const change = async (fill: (load: WeightsLoad) => Promise<void>, version?: Version): Promise<WeightsChange> => {
    const load = await model.beginLoad();
    try {
      await fill(load);
      const committing = load.commit();
      // Asked for at once, so that it is of what was loaded, whatever is done to that next.
      const name = version === undefined ? model.digest().then(loadedVersion) : Promise.resolve(version);
      name.catch(() => {});
      const { version: count, drained } = await committing;
      return { version: await core.names.name(count, () => name), drained };
    } catch (error) {
      await load.discard().catch(() => {});
      throw error;
    }
  };

  return {
    save: (target, options = {}) =>
      core.run(async () => {
        const { merge = false, dtype } = parseOptions(saveSchema, options, "save()");
        if (adapter && !merge && dtype !== undefined) {
          throw new StatesetError("INVALID_OPTION", "save() is given a dtype for an adapter, which is always f32.", {
            hint: "Leave dtype out, or merge the adapter into its base model.",
          });
        }
        foreseeSaving(adapter && !merge ? saving.training : saving.weights);
        // One that is added meanwhile is not among the weights that are saved.
        const { valueHead } = core;
        const now = await model.retain();
        const { readTensor } = now;
        try {
          if (adapter && !merge) {
            // A path is named in full: the adapter will be loaded from elsewhere. A hub id stays as it is.
            const local = resolve(base.name) === resolve(base.dir) || (await isGgufFile(base.dir));
            const baseName = local ? resolve(base.dir) : base.name;
            const conv1d = architecture === "gpt2";
            await saveAdapter(target, adapter.lora, adapter.modules, baseName, conv1d, { read: readTensor });
            await copyTokenizer(tokenizerFiles, target);
          } else {
            await saveWeights(target, tokenizerFiles, config, readTensor, mergeInto(adapter, readTensor), dtype);
          }
          if (valueHead) await saveValueHead(target, engine.hidden, readTensor);
        } finally {
          await now.close();
        }
      }),

    saveGguf: (file, options = {}) =>
      core.run(async () => {
        const { type = "f16", onProgress } = parseOptions(ggufSchema, options, "saveGguf()");
        if (adapter) await refuseBase(file, base.dir);
        foreseeSaving(saving.weights);
        const now = await model.retain();
        try {
          const adjust = mergeInto(adapter, now.readTensor);
          const read = (place: TensorPlace) => wholeTensor(place, now.readTensor, adjust);
          return await writeModelAsGguf(
            { config, tokenizer: tokenizerFiles, read },
            { file, type: type.toUpperCase() as WritableType, name: ggufTitle(file), onProgress },
          );
        } finally {
          await now.close();
        }
      }),

    snapshot: (target) =>
      core.train(async () => {
        foreseeSaving(saving.training);
        // Asked for at once, so that no other call comes in between: all of it is of one moment.
        const asked = [model.retainTraining(), model.tensors()] as const;
        const { dropoutPasses } = core;
        const [trained, specs] = await Promise.all(asked);
        try {
          const version = await core.names.at(trained.version);
          const places = placesOf({ config, adapter, specs }, trainedKinds(adapter));
          const state = { architecture, lora: adapter?.lora ?? null, moments, dropoutPasses, version };
          return { files: await writeSnapshot(target, trained, places, state) };
        } finally {
          await trained.close();
        }
      }),

    restore: (source) =>
      core.train(async () => {
        const state = await readSnapshotState(source);
        if (state.architecture !== architecture) throw mismatch(source, `it is a ${state.architecture}`);
        if (JSON.stringify(state.lora) !== JSON.stringify(adapter?.lora ?? null)) {
          throw mismatch(source, `its adapter options are ${JSON.stringify(state.lora)}`);
        }
        if (state.valueHead) await core.addValueHead();
        const tensors = await SnapshotTensors.open(source, { config, adapter, specs: await model.tensors() }, state);
        try {
          tensors.requireMoments(moments);
          const changed = await change((load) => tensors.allInto(load), state.version);
          core.dropoutPasses = state.dropoutPasses;
          return changed;
        } finally {
          await tensors.close();
        }
      }),

    load: (dir) =>
      core.run(async () => {
        const source = await openWeightSource(dir, {
          config,
          adapter,
          forms: core.parts.forms,
          tensors: () => model.tensors(),
        });
        try {
          if (adapter && source.holds === "weights") {
            throw new StatesetError(
              "INVALID_OPTION",
              `${dir} holds whole weights, and ${name} is trained by an adapter.`,
              { hint: "Give the folder of an adapter, or open the model with openPolicy()." },
            );
          }
          if (source.valueHead) await core.addValueHead();
          return await change(source.into);
        } finally {
          await source.close();
        }
      }),
  };
}

/** An adapter is nothing without the numbers it was trained on. */
async function refuseBase(file: string, base: string): Promise<void> {
  const [one, other] = await Promise.all([file, base].map((path) => realpath(path).catch(() => undefined)));
  if (one === undefined || one !== other) return;
  throw new StatesetError("WRITE_FAILED", `${file} is the base model of the adapter, which would be lost with it.`, {
    hint: "Name another file.",
  });
}
