import { join } from "node:path";
import type { Model, RetainedWeights } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";
import { checkTree } from "../check-tree.ts";
import type { Policy, Reference, Version } from "../policy.ts";
import { changedVersion, loadedVersion } from "../version.ts";
import { exists } from "../what-lies-at.ts";
import { onEngine } from "./errors.ts";
import { foresee } from "./memory.ts";
import type { NativeCore } from "./native-core.ts";
import { loadAdapter } from "./peft.ts";
import {
  openReferenceTensors,
  ownKinds,
  type ReferenceTensors,
  readReference,
  referenceFile,
  type SavedReference,
  writeReference,
} from "./reference-file.ts";
import { type SmallWeights, shrink } from "./small-reference.ts";
import { kindOf } from "./snapshot.ts";
import { placesOf } from "./snapshot-tensors.ts";
import { openWeightSource } from "./weight-source.ts";
import { loadWeights, type TensorTarget } from "./weights.ts";

interface Made extends SavedReference {
  /** Undefined: the policy's present ones, without their adapter. The base under an adapter never changes. */
  weights: RetainedWeights | SmallWeights | undefined;
  /** False where an adapter does nothing and need not be computed. */
  adapters: boolean;
  /** What is not the policy's own. */
  holds: ReferenceTensors["holds"];
}

export function createReferences(core: NativeCore): Pick<Policy, "reference"> {
  const { model, config, forms, adapter, adapterDir, base, name, digest, reference: small } = core.parts;
  const { engine } = config;
  const holds = adapter ? "adapter" : "weights";

  const foreseeCopy = (what = `A frozen copy of ${name}`) =>
    foresee(
      adapter ? 4 * core.parameters : core.needs.reference,
      what,
      adapter ? "Use a smaller model." : "Use LoRA, whose reference needs no copy, or a smaller model.",
    );

  const withoutAdapter = (): Made => ({
    source: "base",
    version: changedVersion(core.opened, "without its adapter"),
    weights: undefined,
    adapters: false,
    holds,
  });

  const opened = (weights: RetainedWeights): Made => ({
    source: "opened",
    version: core.opened,
    weights,
    adapters: true,
    holds,
  });

  /** The present weights, and whether they are those of the files: the order of the calls decides it, not what is known by now. */
  const retainPresent = async () => {
    if (!adapter) foreseeCopy();
    const weights = await model.retain();
    return { weights, isOpened: weights.version === core.openedCount };
  };

  const asOpened = async (): Promise<Made> => {
    const now = await retainPresent();
    if (now.isOpened) return opened(now.weights);
    await now.weights.close();
    // A new adapter did nothing.
    if (adapter && adapterDir === undefined) return { ...withoutAdapter(), version: core.opened };
    const weights = await loadRetained(model, (target) =>
      adapter && adapterDir !== undefined
        ? loadAdapter(adapterDir, adapter.lora, adapter.modules, { set: target.setTensor })
        : loadWeights(base.dir, config, target, forms),
    );
    return keeping(weights, async () => {
      if ((await weights.digest()) !== digest) {
        throw new StatesetError(
          "MODEL_INVALID",
          `The weights in ${adapterDir ?? base.dir} are no longer those that ${name} was opened with.`,
          {
            hint: "A reference to a model as it was opened needs its files as they were. Keep them, or make the reference first.",
          },
        );
      }
      return opened(weights);
    });
  };

  const present = async (): Promise<Made> => {
    const { weights, isOpened } = await retainPresent();
    return keeping(weights, async () => {
      const fresh = adapter !== undefined && adapterDir === undefined;
      if (isOpened && !fresh) return opened(weights);
      const version = await core.names.at(weights.version);
      // An adapter that has not been trained does nothing.
      return { source: "own", version, weights, adapters: !(fresh && isOpened), holds };
    });
  };

  /** What Reference.save() wrote. */
  const saved = async (dir: string): Promise<Made> => {
    const stored = await readReference(dir);
    const { source, version } = stored;
    if (source === "base" && adapter) return withoutAdapter();
    // Another engine names the same weights otherwise.
    if (source === "opened" && (version === core.opened || stored.engine !== "native")) return asOpened();
    if (source !== "own") {
      const what = source === "base" ? "the base of an adapter" : `${version}, which its policy was opened with`;
      throw new StatesetError("CHECKPOINT_MISMATCH", `The reference in ${dir} is ${what}.`, {
        hint: `${name} ${source === "base" ? "has no adapter" : `is ${core.opened}`}: open the same model in the same way.`,
      });
    }
    const tensors = await openReferenceTensors(dir, stored, { config, adapter, specs: await model.tensors() });
    try {
      if (tensors.holds === "weights") foreseeCopy();
      const weights = await loadRetained(model, tensors.into);
      return { source, version, weights, adapters: true, holds: tensors.holds };
    } finally {
      await tensors.close();
    }
  };

  const fromFolder = async (dir: string): Promise<Made> => {
    if (await exists(join(dir, referenceFile))) return saved(dir);
    const source = await openWeightSource(dir, { config, adapter, forms, tensors: () => model.tensors() });
    try {
      if (source.holds === "weights") foreseeCopy(`A second model from ${dir}`);
      const weights = await loadRetained(model, async (target) => {
        await source.into(target);
        // The policy's adapter is not part of it.
        if (adapter && source.holds === "weights") await emptyAdapter(model, target);
      });
      return await keeping(weights, async () => ({
        source: "own",
        version: loadedVersion(await weights.digest()),
        weights,
        adapters: source.holds === "adapter",
        holds: source.holds,
      }));
    } finally {
      await source.close();
    }
  };

  /** In fewer bits, where that was asked for. Rounded weights are others: they have a name of their own. */
  const kept = async (made: Made): Promise<Made & { rounded?: Version }> => {
    const { weights } = made;
    if (!small || !weights || "on" in weights || made.holds !== "weights") return made;
    try {
      const copy = await shrink(core, weights, small.forms);
      const rounded = loadedVersion(await copy.digest());
      return { ...made, weights: copy, rounded, ...(made.source === "own" && { version: rounded }) };
    } finally {
      await weights.close();
    }
  };

  const referenceOf = async (made: Made): Promise<Reference> => {
    const now = await kept(made);
    let closed = false;
    const inTurn = createTurns();
    const alive = <T>(work: () => Promise<T>): Promise<T> =>
      core.run(async () => {
        if (closed) throw new StatesetError("POLICY_CLOSED", "The reference was used after close().");
        return work();
      });
    return {
      get version() {
        return now.rounded ?? now.version;
      },
      logprobs: (batch, { temperature = 1 } = {}) =>
        alive(async () => {
          checkTree(batch, engine.vocab, engine.maxPositions);
          const wants = { grad: false, entropy: false, values: false, hidden: false, recompute: false };
          const from = { adapters: now.adapters, weights: now.weights?.handle, dropoutSeed: undefined };
          const on = now.weights && "on" in now.weights ? now.weights.on : model;
          return (await on.forward(batch, { ...wants, ...from, temperature })).logprobs;
        }),
      blend: (decay) =>
        alive(() =>
          inTurn(async () => {
            // The base is an adapter that does nothing; to move, it needs one of its own.
            const weights = now.weights ?? (await loadRetained(model, (target) => emptyAdapter(model, target)));
            Object.assign(now, { weights, adapters: true });
            const count = await weights.blend(decay);
            now.source = "own";
            now.version = changedVersion(now.version, "blend", decay, await core.names.at(count));
          }),
        ),
      save: (dir) =>
        alive(() =>
          inTurn(async () => {
            const { source, version, weights } = now;
            const of = { config, adapter, specs: await model.tensors() };
            const own = source === "own" ? { weights: weights!, places: placesOf(of, ownKinds(now.holds)) } : undefined;
            return { files: await writeReference(dir, { source, version }, own) };
          }),
        ),
      async close() {
        if (closed) return;
        closed = true;
        await onEngine(() => inTurn(async () => now.weights?.close()));
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

/** Runs work one after the other, the first at once: the engine takes calls in the order in which they were made. */
function createTurns() {
  let last: Promise<unknown> | undefined;
  return <T>(work: () => Promise<T>): Promise<T> => {
    const turn = last ? last.then(work, work) : work();
    const done = () => {
      if (last === turn) last = undefined;
    };
    last = turn;
    turn.then(done, done);
    return turn;
  };
}

/** Frees the weights when what is to become of them fails. */
async function keeping<T>(weights: RetainedWeights, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await weights.close();
    throw error;
  }
}

/**
 * An adapter that does nothing: B is zero. A is the policy's own, so that a reference that moves a part of the way to the policy gets
 * that part of what its adapter does; with A zero, too, it would get the square of it.
 */
async function emptyAdapter(model: Model, target: TensorTarget): Promise<void> {
  const now = await model.retain();
  try {
    for (const { name, rows, cols } of await model.tensors()) {
      if (kindOf(name) !== "adapter") continue;
      await target.setTensor(
        name,
        name.endsWith(".lora_b") ? new Float32Array(rows * cols) : await now.readTensor(name),
      );
    }
  } finally {
    await now.close();
  }
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
