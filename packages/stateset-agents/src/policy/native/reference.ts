import { join } from "node:path";
import type { Model, RetainedWeights } from "@stateset-agents/engine";
import { z } from "zod";
import { writeJsonAtomic } from "../../durable.ts";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import type { Policy, Reference, Version } from "../policy.ts";
import { readJsonObject } from "../tokenizer/model-json.ts";
import { changedVersion, loadedVersion } from "../version.ts";
import { openWeights, type TensorToWrite, writeSafetensors } from "../weights/index.ts";
import { exists, makeFolder } from "./files.ts";
import { foresee } from "./memory.ts";
import type { NativeCore } from "./native-core.ts";
import { loadAdapter } from "./peft.ts";
import { kindOf } from "./snapshot.ts";
import { checkTree } from "./token-tree.ts";
import { openWeightSource } from "./weight-source.ts";
import { loadWeights, type TensorTarget } from "./weights.ts";

/**
 * Where a reference's weights are to be found again: the model without its adapter, the files the policy was opened from, or nowhere
 * but in a file of its own.
 */
const sources = ["base", "opened", "own"] as const;
type Source = (typeof sources)[number];

const referenceFile = "reference.json";
const tensorFile = "reference.safetensors";
const schema = z.strictObject({ format: z.literal(1), source: z.enum(sources), version: z.string() });

/** Undefined weights are the policy's present ones: the base under an adapter never changes. */
interface Made {
  source: Source;
  version: Version;
  weights: RetainedWeights | undefined;
  adapters: boolean;
}

export function createReferences(core: NativeCore): Pick<Policy, "reference"> {
  const { model, config, adapter, adapterDir, base, name } = core.parts;
  const { engine } = config;

  const foreseeCopy = () =>
    foresee(core.needs.reference, `A frozen copy of ${name}`, "Use LoRA, whose reference needs no copy.");

  const withoutAdapter = (): Made => ({
    source: "base",
    version: changedVersion(core.opened, "without its adapter"),
    weights: undefined,
    adapters: false,
  });

  const asOpened = async (): Promise<Made> => {
    if (!adapter) foreseeCopy();
    const weights = core.untouched
      ? await model.retain()
      : await loadRetained(model, (target) =>
          adapter
            ? loadAdapter(adapterDir!, adapter.lora, adapter.modules, { set: target.setTensor })
            : loadWeights(base.dir, config, target),
        );
    return { source: "opened", version: core.opened, weights, adapters: true };
  };

  const present = async (): Promise<Made> => {
    const fresh = adapter !== undefined && adapterDir === undefined;
    if (core.untouched && !fresh) return asOpened();
    if (!adapter) foreseeCopy();
    // An adapter that has not been trained does nothing, so it need not be computed.
    const adapters = !(fresh && core.untouched);
    return { source: "own", version: core.names.now, weights: await model.retain(), adapters };
  };

  /** What Reference.save() wrote. */
  const saved = async (dir: string): Promise<Made> => {
    const { source, version } = parseOptions(
      schema,
      await readJsonObject(dir, referenceFile),
      join(dir, referenceFile),
      "CHECKPOINT_INVALID",
    );
    if (source === "base") return withoutAdapter();
    if (source === "opened") return asOpened();
    if (!adapter) foreseeCopy();
    const stored = await openWeights(join(dir, tensorFile)).catch((cause: unknown) => {
      throw new StatesetError("CHECKPOINT_INVALID", `The reference in ${dir} cannot be read.`, { cause });
    });
    try {
      const names = (await model.tensors()).map((tensor) => tensor.name).filter((tensor) => isOwn(tensor));
      const missing = names.find((tensor) => !stored.has(tensor));
      if (missing !== undefined) {
        throw new StatesetError("CHECKPOINT_MISMATCH", `The reference in ${dir} is of another model: no ${missing}.`);
      }
      const weights = await loadRetained(model, async (target) => {
        for (const tensor of names) await target.setTensor(tensor, await stored.read(tensor));
      });
      return { source, version, weights, adapters: true };
    } finally {
      await stored.close();
    }
  };

  const fromFolder = async (dir: string): Promise<Made> => {
    if (await exists(join(dir, referenceFile))) return saved(dir);
    const source = await openWeightSource(dir, { config, adapter, tensors: () => model.tensors() });
    try {
      if (source.holds === "weights") {
        foresee(core.needs.weights, `A second model from ${dir}`, "Use a smaller model, or LoRA.");
      }
      const weights = await loadRetained(model, source.into);
      const version = loadedVersion(await weights.digest());
      return { source: "own", version, weights, adapters: source.holds === "adapter" };
    } finally {
      await source.close();
    }
  };

  /** The tensors that tell one reference from another. */
  const isOwn = (tensor: string) => kindOf(tensor) === (adapter ? "adapter" : "base");

  const referenceOf = (made: Made): Reference => {
    let { source, version, weights, adapters } = made;
    let closed = false;
    const alive = <T>(work: () => Promise<T>): Promise<T> =>
      core.run(async () => {
        if (closed) throw new StatesetError("POLICY_CLOSED", "The reference was used after close().");
        return work();
      });
    return {
      get version() {
        return version;
      },
      logprobs: (batch, { temperature = 1 } = {}) =>
        alive(async () => {
          checkTree(batch, engine.vocab, engine.maxPositions);
          const wants = { grad: false, entropy: false, values: false, hidden: false, recompute: false };
          const from = { adapters, weights: weights?.handle, dropoutSeed: undefined };
          return (await model.forward(batch, { ...wants, ...from, temperature })).logprobs;
        }),
      blend: (decay) =>
        alive(async () => {
          // The base is an adapter that does nothing; to move, it needs one of its own.
          weights ??= await emptyAdapter(model);
          await weights.blend(decay);
          version = changedVersion(version, "blend", decay, core.names.now);
          source = "own";
          adapters = true;
        }),
      save: (dir) =>
        alive(async () => {
          await makeFolder(dir);
          if (source === "own") {
            const tensors: TensorToWrite[] = [];
            for (const { name: tensor, rows, cols } of (await model.tensors()).filter((spec) => isOwn(spec.name))) {
              tensors.push({ name: tensor, shape: [rows, cols], data: await weights!.readTensor(tensor) });
            }
            await writeSafetensors(join(dir, tensorFile), tensors);
          }
          writeJsonAtomic(join(dir, referenceFile), { format: 1, source, version });
        }),
      async close() {
        if (closed || core.closed) return;
        closed = true;
        await weights?.close();
      },
    };
  };

  return {
    reference: (of = "present") =>
      core.run(async () => {
        if (typeof of === "object") return referenceOf(await fromFolder(of.from));
        if (of === "present") return referenceOf(await present());
        return referenceOf(adapter ? withoutAdapter() : await asOpened());
      }),
  };
}

/** The present weights with an adapter that does nothing. */
function emptyAdapter(model: Model): Promise<RetainedWeights> {
  return loadRetained(model, async (target) => {
    for (const { name, rows, cols } of await model.tensors()) {
      if (kindOf(name) === "adapter") await target.setTensor(name, new Float32Array(rows * cols));
    }
  });
}

/** Weights beside the present ones, from whatever fills them. */
async function loadRetained(model: Model, fill: (target: TensorTarget) => Promise<void>): Promise<RetainedWeights> {
  const load = await model.beginRetainedLoad();
  try {
    // Nobody asks a reference for values.
    await fill({
      setTensor: async (name, data) => (name.startsWith("value.") ? undefined : load.setTensor(name, data)),
    });
    return await load.retain();
  } catch (error) {
    await load.discard().catch(() => {});
    throw error;
  }
}
