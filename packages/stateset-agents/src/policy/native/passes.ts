import type { PassHandle } from "@stateset-agents/engine";
import { seedOf } from "../../random.ts";
import { checkDerivatives, checkForward, usedPass } from "../check-pass.ts";
import type { Forward, Policy } from "../policy.ts";
import type { NativeCore } from "./native-core.ts";

/** Forward and backward. A pass that the caller forgets is freed like one it releases. */
export function createPasses(core: NativeCore): Pick<Policy, "forward" | "backward"> {
  const { model, config, adapter, seed } = core.parts;
  const limits = { vocabSize: config.engine.vocab, contextLength: config.engine.maxPositions };
  /** Passes that wait for backward() or release(), by the object the caller holds. */
  const passes = new WeakMap<Forward, { pass: PassHandle; tokens: number }>();

  return {
    forward: (batch, { grad = true, temperature = 1, ...wants } = {}) =>
      core.run(async () => {
        checkForward(batch, { temperature, values: wants.values ?? false }, { ...limits, valueHead: core.valueHead });
        if (grad && !core.prepared) await core.prepareTraining();
        const dropout = grad && adapter !== undefined && adapter.lora.dropout > 0;
        const { pass, ...numbers } = await model.forward(batch, {
          grad,
          entropy: wants.entropy ?? false,
          values: wants.values ?? false,
          hidden: wants.hidden ?? false,
          recompute: wants.recompute ?? false,
          adapters: true,
          temperature,
          dropoutSeed: dropout ? seedOf(seed, "dropout", core.dropoutPasses++) : undefined,
        });
        const forward: Forward = {
          logprobs: numbers.logprobs,
          ...(numbers.entropy && { entropy: numbers.entropy }),
          ...(numbers.values && { values: numbers.values }),
          ...(numbers.hidden && { hidden: numbers.hidden }),
          release() {
            const waiting = passes.get(forward);
            passes.delete(forward);
            // A closed engine has released it already.
            if (waiting && !core.closed) model.release(waiting.pass).catch(() => {});
          },
        };
        if (pass !== undefined) passes.set(forward, { pass, tokens: batch.tokens.length });
        return forward;
      }),

    backward: (forward, { logprobs, entropy, values, valuesIntoTrunk = true }) =>
      core.run(async () => {
        const waiting = passes.get(forward);
        if (!waiting) throw usedPass();
        checkDerivatives({ logprobs, entropy, values }, waiting.tokens);
        passes.delete(forward);
        await model.backward(waiting.pass, {
          logprobs: logprobs ?? new Float32Array(waiting.tokens),
          entropy,
          values,
          valuesIntoTrunk,
        });
      }),
  };
}
