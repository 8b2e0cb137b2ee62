import { resolve } from "node:path";
import type { EngineStats, Model, PassHandle, WeightChange, WeightsLoad } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";
import { seedOf } from "../../random.ts";
import type { Forward, ModelInfo, Policy } from "../policy.ts";
import type { LoadedTokenizer } from "../tokenizer/index.ts";
import { onEngine } from "./errors.ts";
import { copyTokenizer } from "./files.ts";
import { adapterParameters, foresee, memoryNeeds, parameterCount } from "./memory.ts";
import { mergeInto } from "./merge.ts";
import type { ModelConfig } from "./model-config.ts";
import { type Adapter, saveAdapter } from "./peft.ts";
import { createReference, loadRetained, type NativeReference, OwnReference, type Score } from "./reference.ts";
import { type Abort, checkRequest, type Sampler, sampleOne } from "./sampling.ts";
import { mismatch, readSnapshotState, SnapshotTensors, writeSnapshot } from "./snapshot.ts";
import { checkStep } from "./step-options.ts";
import { checkTree } from "./token-tree.ts";
import { openWeightSource } from "./weight-source.ts";
import { loadWeights, saveValueHead, saveWeights } from "./weights.ts";

/** A loaded model and what was decided about it. */
export interface NativeParts {
  name: string;
  /** Of the base model: where its files are, and what an adapter calls it. */
  base: { dir: string; name: string };
  /** Where the tokenizer's files are: beside an adapter, or with the base model. */
  tokenizerDir: string;
  config: ModelConfig;
  model: Model;
  tokenizer: LoadedTokenizer;
  adapter: Adapter | undefined;
  valueHead: boolean;
  seed: number;
}

/** The Policy contract on the embedded engine, and what only this engine offers. */
export interface NativePolicy extends Policy {
  readonly tokenizer: LoadedTokenizer;
  /** Of the present weights: goes up with every change. Every sample carries the one that made it. */
  readonly version: number;
  /** A name for the numbers of the present weights, the same in every process: for telling which weights a version was. */
  digest(): Promise<string>;
  stats(): EngineStats;
  /**
   * Puts in other weights of the same shape as one change: a snapshot (without its optimiser state), a folder in Hugging Face layout,
   * or, where the policy has an adapter, one in PEFT's. Running replies end with the weights they began with.
   */
  load(dir: string): Promise<WeightChange>;
  /** The present weights as they are now, to compare with; under LoRA with the adapter, or without (the base model). No copy is made. */
  retain(options?: { adapters?: boolean }): Promise<NativeReference>;
  /** As load(), beside the present weights. Under LoRA a folder with whole weights is a base model, compared with as it is. */
  loadReference(dir: string): Promise<NativeReference>;
}

export function createNativePolicy(parts: NativeParts): NativePolicy {
  const { name, base, tokenizerDir, config, model, tokenizer, adapter, seed } = parts;
  const { engine } = config;
  const parameters = parameterCount(engine);
  const needs = memoryNeeds(config, adapter);
  const sampler: Sampler = { model, tokenizer, vocabSize: engine.vocab, contextLength: engine.maxPositions };
  /** Passes that wait for backward() or release(), by the object the caller holds. */
  const passes = new WeakMap<Forward, { pass: PassHandle; tokens: number }>();
  const ownReference = new OwnReference();
  let valueHead = parts.valueHead;
  let closed = false;
  let prepared = false;
  let dropoutPasses = 0;
  /** Whether the weights are still those of the files. */
  let untouched = true;

  const live = () => {
    if (closed) throw new StatesetError("POLICY_CLOSED", `${name} was used after close().`);
  };
  /** Gradients and moments are reserved when training begins, so that serving a model does not pay for them. */
  const prepareTraining = async () => {
    if (!adapter) {
      foresee(
        needs.optimiser,
        `Training all ${parameters} parameters of ${name} (gradients and optimiser state)`,
        "Use LoRA (the `lora` option), a smaller model, or a machine with more memory.",
      );
    }
    await model.setTrainable(adapter ? "adapters" : "full");
    prepared = true;
  };
  const run = <T>(work: () => Promise<T>): Promise<T> =>
    onEngine(async () => {
      live();
      return work();
    });
  // No turn is lost when nothing is to be prepared: the engine takes calls in the order in which they were made.
  const train = <T>(work: () => Promise<T>): Promise<T> =>
    run(async () => {
      if (!prepared) await prepareTraining();
      return work();
    });
  const score: Score = (batch, temperature, { weights, adapters }) =>
    run(async () => {
      checkTree(batch, engine.vocab, engine.maxPositions);
      const wants = { grad: false, entropy: false, values: false, hidden: false, recompute: false };
      const from = { adapters, weights: weights?.handle, dropoutSeed: undefined };
      return (await model.forward(batch, { ...wants, ...from, temperature })).logprobs;
    });
  const foreseeReference = () =>
    foresee(needs.reference, `A frozen copy of ${name}`, "Use LoRA, whose reference needs no copy.");
  const addValueHead = async (headSeed: number) => {
    if (!valueHead) await model.addValueHead(headSeed);
    valueHead = true;
  };
  /** Fills a load and commits it: whoever samples sees all of it or nothing. */
  const change = async (fill: (load: WeightsLoad) => Promise<void>): Promise<WeightChange> => {
    const load = await model.beginLoad();
    try {
      await fill(load);
      untouched = false;
      return await load.commit();
    } catch (error) {
      await load.discard().catch(() => {});
      throw error;
    }
  };
  const openSource = (dir: string) => openWeightSource(dir, { config, adapter, tensors: () => model.tensors() });

  return {
    get model(): ModelInfo {
      return {
        name,
        architecture: config.architecture,
        parameters,
        trainableParameters: (adapter ? adapterParameters(adapter) : parameters) + (valueHead ? engine.hidden + 1 : 0),
        hiddenSize: engine.hidden,
        layers: engine.layers,
        vocabSize: engine.vocab,
        contextLength: engine.maxPositions,
        endTokens: tokenizer.endTokens,
        ...(adapter && { lora: adapter.lora }),
        valueHead,
        stub: false,
      };
    },
    tokenizer,
    get version() {
      return model.version;
    },
    digest: () => run(() => model.digest()),
    stats: () => model.stats(),

    sample: (requests, { signal, onToken } = {}) =>
      run(async () => {
        requests.forEach((request, index) => {
          checkRequest(sampler, request, index);
        });
        const abort: Abort = { aborted: signal?.aborted ?? false, running: new Set() };
        const stop = () => {
          abort.aborted = true;
          for (const cancel of abort.running) cancel();
        };
        signal?.addEventListener("abort", stop, { once: true });
        const replies = requests.map((request, index) => sampleOne(sampler, request, index, abort, onToken));
        try {
          return await Promise.all(replies);
        } catch (error) {
          // One request's failure (the caller's callback, say) must not leave the others sampling for nobody.
          stop();
          await Promise.allSettled(replies);
          throw error;
        } finally {
          signal?.removeEventListener("abort", stop);
        }
      }),

    forward: (batch, { grad = true, temperature = 1, ...wants } = {}) =>
      run(async () => {
        checkTree(batch, engine.vocab, engine.maxPositions);
        if (!(temperature > 0 && temperature < Infinity)) {
          throw new StatesetError(
            "INVALID_OPTION",
            `forward() got the temperature ${temperature}; it must be above 0.`,
            {
              hint: "Greedy samples (temperature 0) carry the log-probs of temperature 1.",
            },
          );
        }
        if (wants.values && !valueHead) {
          throw new StatesetError("INVALID_OPTION", "forward() was asked for values, but there is no value head.", {
            hint: "Call addValueHead(seed) first.",
          });
        }
        if (grad && !prepared) await prepareTraining();
        const dropout = grad && adapter !== undefined && adapter.lora.dropout > 0;
        const result = await model.forward(batch, {
          grad,
          entropy: wants.entropy ?? false,
          values: wants.values ?? false,
          hidden: wants.hidden ?? false,
          recompute: wants.recompute ?? false,
          adapters: true,
          temperature,
          dropoutSeed: dropout ? seedOf(seed, "dropout", dropoutPasses++) : undefined,
        });
        const { pass, ...numbers } = result;
        const forward: Forward = {
          logprobs: numbers.logprobs,
          ...(numbers.entropy && { entropy: numbers.entropy }),
          ...(numbers.values && { values: numbers.values }),
          ...(numbers.hidden && { hidden: numbers.hidden }),
          release() {
            const waiting = passes.get(forward);
            passes.delete(forward);
            // A closed engine has released it already.
            if (waiting && !closed) model.release(waiting.pass).catch(() => {});
          },
        };
        if (pass !== undefined) passes.set(forward, { pass, tokens: batch.tokens.length });
        return forward;
      }),

    backward: (forward, { logprobs, entropy, values, valuesIntoTrunk = true }) =>
      run(async () => {
        const waiting = passes.get(forward);
        if (!waiting) {
          throw new StatesetError(
            "INVALID_OPTION",
            "backward() got a pass that was made without grad, or was used before.",
          );
        }
        for (const [what, derivative] of Object.entries({ logprobs, entropy, values })) {
          if (derivative && derivative.length !== waiting.tokens) {
            throw new StatesetError(
              "INVALID_OPTION",
              `backward() got ${derivative.length} derivatives of ${what} for ${waiting.tokens} tokens.`,
            );
          }
        }
        passes.delete(forward);
        await model.backward(waiting.pass, {
          logprobs: logprobs ?? new Float32Array(waiting.tokens),
          entropy,
          values,
          valuesIntoTrunk,
        });
      }),

    step: (options) =>
      train(async () => {
        const checked = checkStep(options);
        untouched = false;
        return model.step(checked);
      }),
    zeroGradients: () => run(() => model.zeroGradients()),

    reference: ({ renew = false } = {}) =>
      run(async () => {
        const { source } = ownReference;
        if (!adapter && (source === "none" || (renew && !(source === "loaded" && untouched)))) {
          if (source === "none") foreseeReference();
          const from = untouched ? "loaded" : "saved";
          await ownReference.replace(await model.retain(), from);
        }
        return {
          // With an adapter, the base model; else whatever weights are the reference by then.
          logprobs: (batch, { temperature = 1 } = {}) =>
            score(batch, temperature, { weights: ownReference.weights, adapters: false }),
        };
      }),
    retain: ({ adapters = true } = {}) => run(async () => createReference(await model.retain(), adapters, score)),
    loadReference: (dir) =>
      run(async () => {
        const source = await openSource(dir);
        try {
          if (source.holds === "weights") foresee(4 * parameters, `A second model from ${dir}`, "Use a smaller model.");
          return createReference(await loadRetained(model, source.into), source.holds === "adapter", score);
        } finally {
          await source.close();
        }
      }),

    addValueHead: (headSeed) => run(() => addValueHead(headSeed)),
    readVector: (what) => train(() => model.readFlat(what)),
    addVector: (delta) =>
      train(async () => {
        untouched = false;
        await model.addFlat(delta);
      }),

    save: (target, { merge = false } = {}) =>
      run(async () => {
        // What is saved is one version, also when a change comes in between.
        const now = await model.retain();
        const { readTensor } = now;
        try {
          if (adapter && !merge) {
            // A folder is named in full: the adapter will be loaded from elsewhere. A hub id stays as it is.
            const baseName = resolve(base.name) === resolve(base.dir) ? resolve(base.dir) : base.name;
            const conv1d = config.architecture === "gpt2";
            await saveAdapter(target, adapter.lora, adapter.modules, baseName, conv1d, { read: readTensor });
            await copyTokenizer(tokenizerDir, target);
          } else {
            await saveWeights(target, tokenizerDir, config, readTensor, mergeInto(adapter, readTensor));
          }
          if (valueHead) await saveValueHead(target, engine.hidden, readTensor);
        } finally {
          await now.close();
        }
      }),

    snapshot: (target) =>
      train(async () => {
        const steps = await model.stepCounts();
        const { source, weights } = ownReference;
        const state = { lora: adapter?.lora ?? null, valueHead, steps, dropoutPasses, reference: source };
        await writeSnapshot(target, model, { architecture: config.architecture, ...state }, weights);
      }),
    restore: (source) =>
      train(async () => {
        const state = await readSnapshotState(source);
        if (state.architecture !== config.architecture) throw mismatch(source, `it is a ${state.architecture}`);
        if (JSON.stringify(state.lora) !== JSON.stringify(adapter?.lora ?? null)) {
          throw mismatch(source, `its adapter options are ${JSON.stringify(state.lora)}`);
        }
        if (state.valueHead) await addValueHead(0);
        const tensors = await SnapshotTensors.open(source, await model.tensors(), state);
        try {
          const reference = await savedReference(state.reference, tensors);
          await change((load) => tensors.allInto(load, state));
          if (reference) await ownReference.replace(reference, state.reference);
        } finally {
          await tensors.close();
        }
        dropoutPasses = state.dropoutPasses;
      }),
    load: (dir) =>
      run(async () => {
        const source = await openSource(dir);
        try {
          if (adapter && source.holds === "weights") {
            throw new StatesetError(
              "INVALID_OPTION",
              `${dir} holds whole weights, and ${name} is trained by an adapter.`,
              {
                hint: "Give the folder of an adapter, or open the model with openPolicy().",
              },
            );
          }
          if (source.valueHead) await addValueHead(0);
          return await change(source.into);
        } finally {
          await source.close();
        }
      }),

    async close() {
      if (closed) return;
      closed = true;
      await onEngine(() => model.close());
    },
  };

  /** The weights of the reference that a snapshot speaks of, unless it is the present one. */
  async function savedReference(saved: "none" | "loaded" | "saved", tensors: SnapshotTensors) {
    if (saved === "none" || (saved === "loaded" && ownReference.source === "loaded")) return undefined;
    if (ownReference.source === "none") foreseeReference();
    if (saved === "saved") return loadRetained(model, (target) => tensors.referenceInto(target));
    return untouched ? model.retain() : loadRetained(model, (target) => loadWeights(base.dir, config, target));
  }
}
