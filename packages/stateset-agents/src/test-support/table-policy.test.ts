import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { defaultSampling, type TokenTree } from "../policy/policy.ts";
import { createTablePolicy } from "./table-policy.ts";

const tree = (tokens: number[], wantedFrom: number): TokenTree => ({
  tokens: Int32Array.from(tokens),
  nodeStart: Int32Array.from([0, tokens.length]),
  nodeParent: Int32Array.from([-1]),
  wanted: Uint8Array.from(tokens, (_, i) => (i >= wantedFrom ? 1 : 0)),
});

describe("table policy", () => {
  it("scores what it sampled to the same bits", async () => {
    const policy = createTablePolicy({ seed: 3, spread: 1 });
    const prompt = policy.tokenizer.encode("<user> refund please <end> <assistant>", { control: true });
    const sampling = { ...defaultSampling, temperature: 0.7 };
    const [sample] = await policy.sample([{ tokens: prompt, sampling, seed: 5 }]);
    const pass = await policy.forward(tree([...prompt, ...sample!.tokens], prompt.length), { temperature: 0.7 });
    expect([...pass.logprobs.slice(prompt.length)]).toEqual([...sample!.logprobs]);
  });

  it("has the gradients finite differences have", async () => {
    const policy = createTablePolicy({ seed: 1, spread: 1 });
    await policy.addValueHead();
    const batch = tree([2, 6, 8, 0, 3, 7, 9, 0], 5);
    const options = { entropy: true, values: true, temperature: 0.8 };
    const weights = {
      logprobs: [0, 0, 0, 0, 0, 0.5, -1, 2],
      entropy: [0, 0, 0, 0, 0, 1, 0.3, -0.2],
      values: [1, 0, 2, 0, 0, 0, 0, -1],
    };
    const loss = async () => {
      const pass = await policy.forward(batch, options);
      const dot = (a: number[], b: Float32Array) => a.reduce((sum, x, i) => sum + x * b[i]!, 0);
      return (
        dot(weights.logprobs, pass.logprobs) + dot(weights.entropy, pass.entropy!) + dot(weights.values, pass.values!)
      );
    };
    await policy.backward(await policy.forward(batch, options), {
      logprobs: Float32Array.from(weights.logprobs),
      entropy: Float32Array.from(weights.entropy),
      values: Float32Array.from(weights.values),
    });
    const analytic = Float64Array.from(policy.gradients);
    const size = policy.model.vocabSize;
    for (const index of [3 * size + 7, 3 * size + 9, 7 * size + 9, 9 * size, 8 * size + 2, size * size + 2]) {
      const kept = policy.parameters[index]!;
      const h = 2 ** -7;
      policy.parameters[index] = kept + h;
      const up = await loss();
      policy.parameters[index] = kept - h;
      const down = await loss();
      policy.parameters[index] = kept;
      expect(analytic[index]).toBeCloseTo((up - down) / (2 * h), 3);
    }
  });

  it("goes on from a snapshot bit for bit", async () => {
    const dir = temporaryFolder();
    const policy = createTablePolicy({ seed: 1 });
    const learn = async (target: typeof policy) => {
      const pass = await target.forward(tree([2, 6, 8, 0], 1));
      await target.backward(pass, { logprobs: Float32Array.from([0, 1, -1, 0.5]) });
      await target.step({ learningRate: 0.1 });
    };
    await learn(policy);
    await policy.snapshot(dir);
    const other = createTablePolicy({ seed: 9 });
    await other.restore(dir);
    await learn(policy);
    await learn(other);
    expect(other.parameters).toEqual(policy.parameters);
  });
});
