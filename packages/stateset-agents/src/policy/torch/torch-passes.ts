import { checkDerivatives, checkForward, usedPass } from "../check-pass.ts";
import type { Forward, Policy } from "../policy.ts";
import { asCount } from "./reply.ts";
import { gone, type TorchCore } from "./torch-core.ts";
import type { WorkerLink } from "./worker-link.ts";

interface Pass {
  id: number;
  tokens: number;
  /** The worker whose memory holds it. */
  link: WorkerLink;
}

/** Forward and backward. A pass that the caller forgets is freed like one it releases. */
export function createPasses(core: TorchCore): Pick<Policy, "forward" | "backward"> {
  const passes = new WeakMap<Forward, Pass>();
  const release = ({ id, link }: Pass) => link.connection.tell("release", { pass: id });
  const forgotten = new FinalizationRegistry<Pass>(release);

  return {
    forward: (batch, { grad = true, temperature = 1, ...wants } = {}) =>
      core.run(async () => {
        const { entropy = false, values = false, hidden = false, recompute = false } = wants;
        checkForward(batch, { temperature, values }, { ...core.limits, valueHead: core.valueHead });
        const { tokens, nodeStart, nodeParent, wanted } = batch;
        const { link, info } = core;
        const options = { grad, entropy, values, hidden, temperature, recompute };
        const reply = await core.call("forward", options, { tokens, nodeStart, nodeParent, wanted });
        const forward: Forward = {
          logprobs: reply.floats("logprobs", tokens.length),
          ...(entropy && { entropy: reply.floats("entropy", tokens.length) }),
          ...(values && { values: reply.floats("values", tokens.length) }),
          ...(hidden && { hidden: reply.floats("hidden", tokens.length * info.hiddenSize) }),
          release() {
            const pass = passes.get(forward);
            if (!pass) return;
            passes.delete(forward);
            forgotten.unregister(forward);
            release(pass);
          },
        };
        if (grad) {
          const pass = { id: asCount(reply.fields.pass, "forward", "pass"), tokens: tokens.length, link };
          passes.set(forward, pass);
          forgotten.register(forward, pass, forward);
        }
        return forward;
      }),

    backward: (forward, { logprobs, entropy, values, valuesIntoTrunk = true }) =>
      core.run(async () => {
        const pass = passes.get(forward);
        if (!pass) throw usedPass();
        checkDerivatives({ logprobs, entropy, values }, pass.tokens);
        passes.delete(forward);
        forgotten.unregister(forward);
        if (pass.link !== core.link) throw gone("The pass");
        const arrays = { ...(logprobs && { logprobs }), ...(entropy && { entropy }), ...(values && { values }) };
        await core.call("backward", { pass: pass.id, valuesIntoTrunk }, arrays).catch((error: unknown) => {
          // One that is refused, because the weights have changed or it was not asked for entropies, would stay there.
          release(pass);
          throw error;
        });
      }),
  };
}
