import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { makeTinyModel, temporaryFolder } from "../../../test/tiny-model.ts";
import { MultiTurnAgent } from "../../agent/multi-turn-agent.ts";
import { buildTokenTree } from "../../conversation/token-tree.ts";
import { rewardFunction } from "../../reward/define-reward.ts";
import { tableEnvironment } from "../../test-support/table-training.ts";
import { train } from "../../training/train.ts";
import { openPolicy } from "../open-policy.ts";
import type { Policy } from "../policy.ts";
import { planFolder } from "./memory.ts";

const wide = () => makeTinyModel("llama", { hidden_size: 64, intermediate_size: 96 });
const { tree } = buildTokenTree([
  { tokens: Int32Array.of(1, 20, 30, 40, 50, 60), learn: Uint8Array.of(0, 1, 1, 1, 1, 1) },
]);

async function learn(policy: Policy): Promise<void> {
  const pass = await policy.forward(tree);
  await policy.backward(pass, { logprobs: pass.logprobs.map(() => -1) });
  await policy.step({ learningRate: 1e-2 });
}
const apart = (a: Float32Array, b: Float32Array) => Math.max(...a.map((x, i) => Math.abs(x - b[i]!)));

describe("a reference in bf16", () => {
  it("gives the log-probs of the weights within rounding, and keeps them while these move", async () => {
    const model = await wide();
    const [exact, policy] = [
      await openPolicy({ model, threads: 1 }),
      await openPolicy({ model, threads: 1, referencePrecision: "bf16" }),
    ];
    const before = (await policy.forward(tree)).logprobs;
    const [whole, small] = [await exact.reference(), await policy.reference()];
    expect(await whole.logprobs(tree)).toEqual(before);
    const first = await small.logprobs(tree);
    expect(first).not.toEqual(before);
    expect(apart(first, before)).toBeLessThan(0.02);
    // Other numbers, another name.
    expect(small.version).not.toBe(policy.version);
    await learn(policy);
    expect(await small.logprobs(tree)).toEqual(first);
    expect(apart((await policy.forward(tree)).logprobs, first)).toBeGreaterThan(0.02);
    await expect(small.blend(0.5)).rejects.toMatchObject({ code: "INVALID_OPTION", hint: /referencePrecision/ });
    await Promise.all([exact.close(), policy.close()]);
  });

  it("is the same again from its file, with its name, whatever it was made of", async () => {
    const model = await wide();
    const policy = await openPolicy({ model, threads: 1, referencePrecision: "bf16" });
    const opened = await policy.reference("base");
    await learn(policy);
    const moved = await policy.reference("present");
    for (const reference of [opened, moved]) {
      const from = join(await temporaryFolder(), "reference");
      await reference.save(from);
      const again = await policy.reference({ from });
      expect(await again.logprobs(tree)).toEqual(await reference.logprobs(tree));
      expect(again.version).toBe(reference.version);
      await again.close();
    }
    expect(moved.version).not.toBe(opened.version);
    await policy.close();
  });

  it("takes about half the memory, as planned before a model is opened and after", async () => {
    const model = await wide();
    const options = { tokenBudget: 64, recompute: false, reference: true, scorer: true };
    const [f32, bf16] = [
      await planFolder(model, options),
      await planFolder(model, { ...options, referencePrecision: "bf16" }),
    ];
    expect(bf16.reference).toBeLessThan(0.55 * f32.reference);
    expect(bf16.scorer).toBe(bf16.reference);
    expect(f32.total - bf16.total).toBe(2 * (f32.reference - bf16.reference));
    const policy = await openPolicy({ model, threads: 1, referencePrecision: "bf16" });
    expect(policy.plan(options).reference).toBe(bf16.reference);
    await policy.close();
  });

  it("is what a run measures its KL against: none to speak of at step 1", async () => {
    const model = await wide();
    const klOf = async (referencePrecision: "f32" | "bf16") => {
      const agent = new MultiTurnAgent({ model, referencePrecision, threads: 1, sampling: { maxTokens: 6 } });
      const { run } = await train({
        agent,
        environment: tableEnvironment(),
        reward: rewardFunction({ name: "long" }, ({ turns }) => turns.at(-1)!.content.length),
        dir: false,
        steps: 1,
        groupsPerStep: 1,
        groupSize: 4,
        kl: { coefficient: 0.1 },
      });
      await agent.close();
      return run.metrics.at(-1)!.kl!;
    };
    expect(await klOf("f32")).toBe(0);
    const kl = await klOf("bf16");
    expect(kl).toBeGreaterThan(0);
    expect(kl).toBeLessThan(1e-4);
  });

  it("is refused for an adapter, whose reference needs no copy", async () => {
    const lora = { rank: 4, alpha: 8, dropout: 0, targetModules: "all-linear" } as const;
    const opening = openPolicy({ model: await wide(), lora, referencePrecision: "bf16" });
    await expect(opening).rejects.toMatchObject({ code: "INVALID_OPTION", message: /no copy/ });
  });
});
