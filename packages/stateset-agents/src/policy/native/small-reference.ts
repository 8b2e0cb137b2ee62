import { type Model, openModel, type RetainedWeights } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";
import type { NativeCore } from "./native-core.ts";
import type { WeightForms } from "./precision.ts";
import { kindOf } from "./snapshot.ts";

/** Weights to score with, and the engine that holds them. */
export interface SmallWeights extends Pick<RetainedWeights, "handle" | "readTensor" | "blend" | "digest" | "close"> {
  on: Model;
}

/**
 * A frozen copy of weights in fewer bits. An engine keeps all versions of a tensor in one form, so the copy is in one of its own; it
 * is made tensor by tensor.
 */
export async function shrink(core: NativeCore, weights: RetainedWeights, forms: WeightForms): Promise<SmallWeights> {
  const { config, model, threads, name } = core.parts;
  // It never samples.
  const on = await openModel(config.engine, { threads, forms, slots: 1, cacheBytes: 1 << 20 });
  core.beside.add(on);
  const close = async () => {
    core.beside.delete(on);
    await on.close();
  };
  try {
    await on.setTrainable("none");
    const load = await on.beginLoad();
    for (const { name } of await model.tensors()) {
      if (kindOf(name) === "base") await load.setTensor(name, await weights.readTensor(name));
    }
    await load.commit();
    const { handle } = await on.retain();
    return {
      on,
      handle,
      readTensor: (tensor) => on.readTensor(tensor),
      digest: () => on.digest(),
      blend: async () => {
        throw new StatesetError("INVALID_OPTION", `The reference of ${name} is kept as bf16, which has no average.`, {
          hint: 'Leave out referencePrecision, or set it to "f32", for a reference that moves.',
        });
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
