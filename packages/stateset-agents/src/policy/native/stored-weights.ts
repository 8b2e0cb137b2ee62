import { resolve } from "node:path";
import type { WeightChange, WeightsLoad } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";
import type { Policy } from "../policy.ts";
import { copyTokenizer } from "./files.ts";
import { mergeInto } from "./merge.ts";
import type { NativeCore } from "./native-core.ts";
import { saveAdapter } from "./peft.ts";
import { loadRetained, type References } from "./reference.ts";
import { mismatch, readSnapshotState, type SnapshotState, SnapshotTensors, writeSnapshot } from "./snapshot.ts";
import { openWeightSource } from "./weight-source.ts";
import { loadWeights, saveValueHead, saveWeights } from "./weights.ts";

export interface StoredWeights extends Pick<Policy, "save" | "snapshot" | "restore"> {
  load(dir: string): Promise<WeightChange>;
}

/** Weights to files and back. What is saved is one version; what is loaded becomes the present one as a whole. */
export function createStoredWeights(core: NativeCore, references: References): StoredWeights {
  const { name, base, tokenizerDir, config, model, adapter } = core.parts;
  const { engine, architecture } = config;

  /** Fills a load and commits it: whoever samples sees all of it or nothing. */
  const change = async (fill: (load: WeightsLoad) => Promise<void>): Promise<WeightChange> => {
    const load = await model.beginLoad();
    try {
      await fill(load);
      core.untouched = false;
      return await load.commit();
    } catch (error) {
      await load.discard().catch(() => {});
      throw error;
    }
  };

  /** The weights of the reference that a snapshot speaks of, unless it is the present one. */
  const savedReference = async ({ reference }: SnapshotState, tensors: SnapshotTensors) => {
    if (reference === "none" || (reference === "loaded" && references.own.source === "loaded")) return undefined;
    references.foreseeOwn();
    if (reference === "saved") return loadRetained(model, (target) => tensors.referenceInto(target));
    return core.untouched ? model.retain() : loadRetained(model, (target) => loadWeights(base.dir, config, target));
  };

  return {
    save: (target, { merge = false } = {}) =>
      core.run(async () => {
        const now = await model.retain();
        const { readTensor } = now;
        try {
          if (adapter && !merge) {
            // A folder is named in full: the adapter will be loaded from elsewhere. A hub id stays as it is.
            const baseName = resolve(base.name) === resolve(base.dir) ? resolve(base.dir) : base.name;
            const conv1d = architecture === "gpt2";
            await saveAdapter(target, adapter.lora, adapter.modules, baseName, conv1d, { read: readTensor });
            await copyTokenizer(tokenizerDir, target);
          } else {
            await saveWeights(target, tokenizerDir, config, readTensor, mergeInto(adapter, readTensor));
          }
          if (core.valueHead) await saveValueHead(target, engine.hidden, readTensor);
        } finally {
          await now.close();
        }
      }),

    snapshot: (target) =>
      core.train(async () => {
        const { own } = references;
        const state = {
          architecture,
          lora: adapter?.lora ?? null,
          valueHead: core.valueHead,
          steps: await model.stepCounts(),
          dropoutPasses: core.dropoutPasses,
          reference: own.source,
        };
        await writeSnapshot(target, model, state, own.weights);
      }),

    restore: (source) =>
      core.train(async () => {
        const state = await readSnapshotState(source);
        if (state.architecture !== architecture) throw mismatch(source, `it is a ${state.architecture}`);
        if (JSON.stringify(state.lora) !== JSON.stringify(adapter?.lora ?? null)) {
          throw mismatch(source, `its adapter options are ${JSON.stringify(state.lora)}`);
        }
        if (state.valueHead) await core.addValueHead(0);
        const tensors = await SnapshotTensors.open(source, await model.tensors(), state);
        try {
          const reference = await savedReference(state, tensors);
          try {
            await change((load) => tensors.allInto(load, state));
          } catch (error) {
            await reference?.close();
            throw error;
          }
          if (reference) await references.replaceOwn(reference, state.reference);
        } finally {
          await tensors.close();
        }
        core.dropoutPasses = state.dropoutPasses;
      }),

    load: (dir) =>
      core.run(async () => {
        const source = await openWeightSource(dir, { config, adapter, tensors: () => model.tensors() });
        try {
          if (adapter && source.holds === "weights") {
            throw new StatesetError(
              "INVALID_OPTION",
              `${dir} holds whole weights, and ${name} is trained by an adapter.`,
              { hint: "Give the folder of an adapter, or open the model with openPolicy()." },
            );
          }
          if (source.valueHead) await core.addValueHead(0);
          return await change(source.into);
        } finally {
          await source.close();
        }
      }),
  };
}
