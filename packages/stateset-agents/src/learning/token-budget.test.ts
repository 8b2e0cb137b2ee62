import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { starterModelPath } from "@stateset-agents/starter-model";
import { afterAll, describe, expect, it } from "vitest";
import { engines } from "../policy/engines.ts";
import { planMemory } from "../policy/native/memory.ts";
import type { ModelConfig } from "../policy/native/model-config.ts";
import { noMemory } from "../policy/no-memory.ts";
import type { Policy } from "../policy/policy.ts";
import { harvestBestOfN } from "../supervised/best-of-n.ts";
import { tableLearner, tableLearners } from "../test-support/table-learners.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { learnFrom } from "./learn-from.ts";
import { defaultTokenBudget, tokenBudgetFor } from "./optimiser.ts";

const root = mkdtempSync(join(tmpdir(), "token-budget-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe("the token budget where none is given", () => {
  const shaped = (shape: { hidden: number; inter: number; layers: number }): Pick<Policy, "plan"> => ({
    plan: (options) =>
      planMemory(
        { architecture: "llama", engine: { ...shape, vocab: 1, heads: 1, kvHeads: 1, headDim: 1 } } as ModelConfig,
        undefined,
        { weightBytes: 0, moments: "f32", referenceBytes: undefined, cacheBytes: 0 },
        options,
      ),
  });
  const smol = shaped({ hidden: 576, inter: 1536, layers: 30 });

  it("is 8192 for the starter model", async () => {
    const pass = { reference: false, recompute: false };
    const plan = await engines.native.plan(starterModelPath, { ...pass, tokenBudget: 1 });
    expect(tokenBudgetFor(plan)).toBe(8192);
  });

  it("keeps a pass of a larger model at 2 GiB of activations", () => {
    // 2 GiB / (4 · 30 · (10 · 576 + 3 · 1536)) = 1726 tokens, in whole 256s.
    expect(defaultTokenBudget(smol)).toBe(1536);
    const { activations } = smol.plan({ tokenBudget: 1536, recompute: false, reference: false });
    expect(activations).toBeLessThan(2 ** 31);
  });

  it("is larger where activations are computed again", () => {
    expect(defaultTokenBudget(smol, true)).toBe(8192);
  });

  it("does not go below 256", () => {
    expect(defaultTokenBudget(shaped({ hidden: 8192, inter: 28672, layers: 80 }))).toBe(256);
  });

  it("is 8192 where nothing needs memory, or nothing is known of the model", () => {
    expect([tokenBudgetFor(noMemory), defaultTokenBudget(undefined)]).toEqual([8192, 8192]);
  });
});

it("is that of one process: where two share a pass, a micro-batch holds twice as many tokens", async () => {
  const passes = async (ranks: number) => {
    const { agent, policy } = tableAgent({ spread: 1 });
    const reward = new FunctionReward(politeShare);
    const { groups } = await harvestBestOfN({ agent, environment: tableEnvironment(), reward, aboveMean: false });
    Object.assign(policy.capabilities, { ranks });
    const before = policy.calls.backward;
    await learnFrom(policy, groups, { algorithm: "grpo", tokenBudget: 64 });
    return policy.calls.backward - before;
  };
  const [one, two] = [await passes(1), await passes(2)];
  expect(two).toBeLessThan(one);
  expect(two).toBeGreaterThan(one / 4);
});

// These are DPO with another loss.
describe.each(tableLearners.filter((kind) => !["ipo", "robust", "hinge", "orpo"].includes(kind)))(
  "a run of %s",
  (kind) => {
    /** As if a token of a pass took so many bytes. */
    const learnerOf = (bytes: number) => {
      const learner = tableLearner(kind);
      learner.policy.plan = ({ tokenBudget }) => ({ ...noMemory, activations: bytes * tokenBudget });
      return learner;
    };
    const budgetOf = (dir: string) => JSON.parse(readFileSync(join(dir, "config.json"), "utf8")).settings.tokenBudget;

    it("takes the model's budget, and keeps it when it goes on", async () => {
      const dir = join(root, kind);
      const stop = new AbortController();
      const onStepEnd = () => stop.abort();
      const shown: unknown[] = [];
      const onStart = ({ defaults }: { defaults: Record<string, unknown> }) => void shown.push(defaults.tokenBudget);
      await learnerOf(2 ** 20).run({ dir, epochs: 1, signal: stop.signal, callbacks: { onStepEnd, onStart } });
      expect(budgetOf(dir)).toBe(2048);
      const { warnings } = await learnerOf(2 ** 21).run({ resumeFrom: dir, epochs: 1, callbacks: { onStart } });
      expect(budgetOf(dir)).toBe(2048);
      expect(warnings).toEqual([]);
      // What the view compares with: had nothing been said.
      expect(shown).toEqual([2048, 1024]);
    });
  },
);
