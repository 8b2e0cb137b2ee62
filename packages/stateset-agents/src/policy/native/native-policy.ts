import { resolve } from "node:path";
import type { Model } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";
import { seedOf } from "../../random.ts";
import type { Forward, LoraOptions, ModelInfo, Policy } from "../policy.ts";
import type { LoadedTokenizer } from "../tokenizer/index.ts";
import { onEngine } from "./errors.ts";
import { copyTokenizer } from "./files.ts";
import { foresee, parameterCount } from "./memory.ts";
import { mergeInto } from "./merge.ts";
import type { ModelConfig } from "./model-config.ts";
import { saveAdapter } from "./peft.ts";
import { type Abort, checkRequest, type Sampler, sampleOne } from "./sampling.ts";
import { mismatch, readSnapshotState, restoreTensors, writeSnapshot } from "./snapshot.ts";
import type { LinearModule } from "./tensor-names.ts";
import { checkTree } from "./token-tree.ts";
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
  /** The adapter, and the modules it sits on. */
  adapter: { lora: LoraOptions; modules: readonly LinearModule[] } | undefined;
  valueHead: boolean;
  threads: number;
  seed: number;
}

/** The Policy contract on the embedded engine. */
export function createNativePolicy(parts: NativeParts): Policy & { readonly tokenizer: LoadedTokenizer } {
  const { name, base, tokenizerDir, config, model, tokenizer, adapter, threads, seed } = parts;
  const { engine } = config;
  const parameters = parameterCount(engine);
  const adapterParameters = (adapter?.modules ?? []).reduce(
    (sum, { inSize, targets }) => sum + targets.reduce((n, { rows }) => n + adapter!.lora.rank * (inSize + rows), 0),
    0,
  );
  const sampler: Sampler = { model, tokenizer, vocabSize: engine.vocab, contextLength: engine.maxPositions };
  /** Passes that wait for backward() or release(), by the object the caller holds. */
  const passes = new WeakMap<Forward, { pass: number; tokens: number }>();
  let valueHead = parts.valueHead;
  let closed = false;
  let prepared = false;
  let dropoutPasses = 0;
  let reference: "none" | "loaded" | "saved" = "none";
  /** Whether the weights are still those of the files. */
  let untouched = true;

  const live = () => {
    if (closed) throw new StatesetError("POLICY_CLOSED", `${name} was used after close().`);
  };
  /** Gradients and moments are reserved when training begins, so that serving a model does not pay for them. */
  const prepareTraining = async () => {
    if (!adapter) {
      foresee(
        3 * 4 * parameters,
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

  return {
    get model(): ModelInfo {
      return {
        name,
        architecture: config.architecture,
        parameters,
        trainableParameters: (adapter ? adapterParameters : parameters) + (valueHead ? engine.hidden + 1 : 0),
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
          ofReference: false,
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

    step: ({ learningRate, valueLearningRate, clipNorm, scope = "all", ...rest }) =>
      train(async () => {
        const { beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0 } = rest;
        for (const [key, value] of Object.entries({ learningRate, beta1, beta2, epsilon, weightDecay })) {
          if (!(value >= 0 && value < Infinity)) {
            throw new StatesetError("INVALID_OPTION", `step() got ${key} = ${value}; it must be a number from 0.`);
          }
        }
        untouched = false;
        const options = { learningRate, beta1, beta2, epsilon, weightDecay, scope };
        return model.step({ ...options, valueLearningRate, clipNorm });
      }),
    zeroGradients: () => run(() => model.zeroGradients()),

    reference: ({ renew = false } = {}) =>
      run(async () => {
        const present = reference === "loaded" && untouched;
        if (!adapter && (reference === "none" || (renew && !present))) await makeReference(true);
        return {
          logprobs: (batch, { temperature = 1 } = {}) =>
            run(async () => {
              checkTree(batch, engine.vocab, engine.maxPositions);
              const wants = { grad: false, entropy: false, values: false, hidden: false, recompute: false };
              const from = { adapters: false, ofReference: !adapter, dropoutSeed: undefined };
              return (await model.forward(batch, { ...wants, ...from, temperature })).logprobs;
            }),
        };
      }),

    addValueHead: (headSeed) =>
      run(async () => {
        if (!valueHead) await model.addValueHead(headSeed);
        valueHead = true;
      }),
    readVector: (what) => train(() => model.readFlat(what)),
    addVector: (delta) =>
      train(async () => {
        untouched = false;
        await model.addFlat(delta);
      }),

    save: (target, { merge = false } = {}) =>
      run(async () => {
        const access = { read: (tensor: string) => model.readTensor(tensor), set: model.setTensor };
        if (adapter && !merge) {
          // A folder is named in full: the adapter will be loaded from elsewhere. A hub id stays as it is.
          const baseName = resolve(base.name) === resolve(base.dir) ? resolve(base.dir) : base.name;
          await saveAdapter(target, adapter.lora, adapter.modules, baseName, config.architecture === "gpt2", access);
          await copyTokenizer(tokenizerDir, target);
        } else {
          await saveWeights(target, tokenizerDir, config, model, mergeInto(adapter, access.read));
        }
        if (valueHead) await saveValueHead(target, engine.hidden, model);
      }),

    snapshot: (target) =>
      train(async () => {
        const steps = await model.stepCounts();
        const state = { lora: adapter?.lora ?? null, valueHead, steps, dropoutPasses, reference };
        await writeSnapshot(target, model, { architecture: config.architecture, ...state });
      }),
    restore: (source) =>
      train(async () => {
        const state = await readSnapshotState(source);
        if (state.architecture !== config.architecture) throw mismatch(source, `it is a ${state.architecture}`);
        if (JSON.stringify(state.lora) !== JSON.stringify(adapter?.lora ?? null)) {
          throw mismatch(source, `its adapter options are ${JSON.stringify(state.lora)}`);
        }
        if (state.valueHead && !valueHead) {
          await model.addValueHead(0);
          valueHead = true;
        }
        if (state.reference === "saved") await makeReference(false);
        if (state.reference === "loaded" && reference !== "loaded") {
          await makeReference(untouched);
          if (!untouched) await loadWeights(base.dir, config, model, "reference");
        }
        await restoreTensors(source, model, state);
        untouched = false;
        dropoutPasses = state.dropoutPasses;
        if (state.reference !== "none") reference = state.reference;
        await model.zeroGradients();
      }),

    async close() {
      if (closed) return;
      closed = true;
      await onEngine(() => model.close());
    },
  };

  /** A copy of the present weights; without `copy`, room for weights that are set next. */
  async function makeReference(copy: boolean): Promise<void> {
    if (reference === "none")
      foresee(4 * parameters, `A frozen copy of ${name}`, "Use LoRA, whose reference needs no copy.");
    await model.makeReference(threads, copy);
    reference = untouched ? "loaded" : "saved";
  }
}
