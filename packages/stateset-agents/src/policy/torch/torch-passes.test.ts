/** Several passes alive over the wire, in any order. Needs STATESET_PYTHON. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { readVector } from "../../../test/read-vector.ts";
import { storiesDir } from "../../../test/tiny-model.ts";
import { python, TorchWorkers } from "../../../test/torch-workers.ts";
import { createRandom } from "../../random.ts";
import { defaultSampling, type Forward, type Policy, type TokenTree } from "../policy.ts";

const lineOf = (length: number, first: number): TokenTree => {
  const tokens = Int32Array.from({ length }, (_, i) => 3 + ((first + 7 * i) % 500));
  const wanted = Uint8Array.from(tokens, (_, i) => (i > 0 ? 1 : 0));
  return { tokens, nodeStart: Int32Array.of(0, length), nodeParent: Int32Array.of(-1), wanted };
};

const slopes = ({ logprobs }: Forward) => ({ logprobs: logprobs.map((logprob) => (logprob === 0 ? 0 : -0.1)) });

/** Gradients of `trees` at the weights after `steps`, one pass after the other. */
async function serial(policy: Policy, trees: readonly TokenTree[]): Promise<Float32Array> {
  for (const tree of trees) {
    const pass = await policy.forward(tree);
    await policy.backward(pass, slopes(pass));
  }
  return readVector(policy, "gradients");
}

describe.skipIf(!python)("passes of the torch engine", () => {
  const workers = new TorchWorkers();

  it.each([1, 2, 3])("give the gradients of the serial order in whatever order they come (seed %i)", async (seed) => {
    const policy = await workers.open({ dir: storiesDir });
    const random = createRandom(seed);
    const trees = Array.from({ length: 14 }, (_, i) => lineOf(5 + random.below(60), 31 * i + seed));
    const wanted = new Set(trees.filter(() => random.next() < 0.6));
    const expected = await serial(policy, [...wanted]);
    await policy.zeroGradients();

    const waiting = [...trees];
    const alive: { tree: TokenTree; pass: Promise<Forward> }[] = [];
    const work: Promise<unknown>[] = [];
    const finish = async ({ tree, pass }: (typeof alive)[number]) => {
      const forward = await pass;
      if (wanted.has(tree)) await policy.backward(forward, slopes(forward));
      else forward.release();
    };
    while (waiting.length + alive.length > 0) {
      const choice = random.next();
      if (choice < 0.2) {
        const sampling = { ...defaultSampling, maxTokens: 1 + random.below(12) };
        work.push(policy.sample([{ tokens: lineOf(9, 3).tokens, sampling, seed }]));
      } else if (waiting.length > 0 && (alive.length === 0 || choice < 0.6)) {
        const tree = waiting.pop()!;
        alive.push({ tree, pass: policy.forward(tree) });
      } else if (alive.length > 0) work.push(finish(alive.splice(random.below(alive.length), 1)[0]!));
      if (random.next() < 0.3) await Promise.all(work.splice(0));
    }
    await Promise.all(work);
    const gradients = await readVector(policy, "gradients");
    const norm = (of: Float32Array) => Math.sqrt(of.reduce((sum, value) => sum + value * value, 0));
    expect(norm(gradients.map((value, i) => value - expected[i]!))).toBeLessThan(1e-5 * norm(expected));
    await policy.close();
  });

  it("take no memory once they are released, or taken back", async () => {
    const policy = await workers.open({ dir: storiesDir });
    const tree = lineOf(500, 1);
    const resident = () => {
      const status = readFileSync(`/proc/${policy.worker.pids[0]}/status`, "utf8");
      return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)![1]) * 1024;
    };
    const run = async (count: number) => {
      for (let i = 0; i < count; i++) {
        const pass = await policy.forward(tree);
        if (i % 2 === 0) pass.release();
        else await policy.backward(pass, slopes(pass));
      }
    };
    await run(20);
    const before = resident();
    // What all of these would keep is more than twenty times what is allowed below.
    await run(150);
    const kept = 150 * policy.plan({ tokenBudget: 500, recompute: false, reference: false }).activations;
    expect(resident() - before).toBeLessThan(kept / 20);
    await policy.close();
  });
});
