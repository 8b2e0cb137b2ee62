import type { PassHandle } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";
import { seedOf } from "../../random.ts";
import type { Forward, Policy } from "../policy.ts";
import type { NativeCore } from "./native-core.ts";
import { checkTree } from "./token-tree.ts";

/** Forward and backward. A pass that the caller forgets is freed like one it releases. */
export function createPasses(core: NativeCore): Pick<Policy, "forward" | "backward"> {
  const { model, config, adapter, seed } = core.parts;
  const { engine } = config;
  /** Passes that wait for backward() or release(), by the object the caller holds. */
  const passes = new WeakMap<Forward, { pass: PassHandle; tokens: number }>();

  return {
    forward: (batch, { grad = true, temperature = 1, ...wants } = {}) =>
      core.run(async () => {
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
        if (wants.values && !core.valueHead) {
          throw new StatesetError("INVALID_OPTION", "forward() was asked for values, but there is no value head.", {
            hint: "Call addValueHead() first.",
          });
        }
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
  };
}
