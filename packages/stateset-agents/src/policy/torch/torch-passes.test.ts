/** Several passes alive over the wire, in any order: two orders and 150 passes here, a hundred and 1,000 with `npm run soak`. Needs STATESET_PYTHON. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { readVector } from "../../../test/read-vector.ts";
import { storiesDir, temporaryFolder } from "../../../test/tiny-model.ts";
import { python, TorchWorkers } from "../../../test/torch-workers.ts";
import { createRandom, type Random } from "../../random.ts";
import { defaultSampling, type Forward, type Policy, type TokenTree } from "../policy.ts";

const soak = process.env.STATESET_SOAK !== undefined;

const lineOf = (length: number, first: number): TokenTree => {
  const tokens = Int32Array.from({ length }, (_, i) => 3 + ((first + 7 * i) % 500));
  const wanted = Uint8Array.from(tokens, (_, i) => (i > 0 ? 1 : 0));
  return { tokens, nodeStart: Int32Array.of(0, length), nodeParent: Int32Array.of(-1), wanted };
};

/**
 * Prompts with two replies: what a token sees is not all that is before it. Every other tree has two prompts, and work for two ranks; with the
 * rest one of them has nothing to do.
 */
const forksOf = (length: number, first: number): TokenTree => {
  const third = Math.floor(length / 3);
  const ends = [0, third, 2 * third, length];
  const two = first % 2 === 1;
  const starts = two ? [...ends, ...ends.slice(1).map((end) => length + end)] : ends;
  const tree = lineOf(starts.at(-1)!, first);
  if (two) tree.wanted[length] = 0;
  return {
    ...tree,
    nodeStart: Int32Array.from(starts),
    nodeParent: Int32Array.from(two ? [-1, 0, 0, -1, 3, 3] : [-1, 0, 0]),
  };
};

const slopes = ({ logprobs }: Forward) => ({ logprobs: logprobs.map((logprob) => (logprob === 0 ? 0 : -0.1)) });

const normOf = (of: Float32Array) => Math.sqrt(of.reduce((sum, value) => sum + value * value, 0));

/** Adam with a floor under its divisor: where a gradient is next to nothing, its sign is rounding. */
const adam = { learningRate: 1e-3, epsilon: 1e-2 };

/** What is learnt until a step. */
interface Round {
  trees: readonly TokenTree[];
  wanted: ReadonlySet<TokenTree>;
}

interface Learnt {
  norms: number[];
  gradients: Float32Array;
}

/** One pass after the other, a step after each round but the last. */
async function serial(policy: Policy, rounds: readonly Round[]): Promise<Learnt> {
  const norms: number[] = [];
  for (const [i, { wanted }] of rounds.entries()) {
    for (const tree of wanted) {
      const pass = await policy.forward(tree);
      await policy.backward(pass, slopes(pass));
    }
    if (i < rounds.length - 1) norms.push((await policy.step(adam)).gradNorm);
  }
  return { norms, gradients: await readVector(policy, "gradients") };
}

/** The same in whatever order, with replies between, and passes that nobody wants: some outlive the step, and must be refused then. */
async function interleaved(policy: Policy, rounds: readonly Round[], random: Random): Promise<Learnt> {
  const steps: Promise<number>[] = [];
  const work: Promise<unknown>[] = [];
  const late: Promise<Forward>[] = [];
  const sample = () => {
    const sampling = { ...defaultSampling, maxTokens: 1 + random.below(6) };
    work.push(policy.sample([{ tokens: lineOf(9, 3).tokens, sampling, seed: random.below(1000) }]));
  };
  for (const [i, { trees, wanted }] of rounds.entries()) {
    const waiting = [...trees];
    const alive: { tree: TokenTree; pass: Promise<Forward> }[] = [];
    const finish = async ({ tree, pass }: (typeof alive)[number]) => {
      const forward = await pass;
      if (wanted.has(tree)) await policy.backward(forward, slopes(forward));
      else forward.release();
    };
    while (waiting.length + alive.length > 0) {
      const choice = random.next();
      if (choice < 0.2) sample();
      else if (waiting.length > 0 && (alive.length === 0 || choice < 0.6)) {
        const tree = waiting.pop()!;
        alive.push({ tree, pass: policy.forward(tree, { recompute: random.next() < 0.3 }) });
      } else if (alive.length > 0) {
        const [one] = alive.splice(random.below(alive.length), 1);
        if (!wanted.has(one!.tree) && random.next() < 0.5) late.push(one!.pass);
        else work.push(finish(one!));
      }
      if (random.next() < 0.3) await Promise.all(work.splice(0));
    }
    await Promise.all(work.splice(0));
    if (i === rounds.length - 1) break;
    // Nobody waits for it: what is asked for next comes after it all the same.
    sample();
    steps.push(policy.step(adam).then(({ gradNorm }) => gradNorm));
    for (const pass of late.splice(0)) {
      const forward = await pass;
      if (random.next() < 0.5) forward.release();
      else await expect(policy.backward(forward, slopes(forward))).rejects.toThrow("changed since this pass");
    }
  }
  for (const pass of late) (await pass).release();
  return { norms: await Promise.all(steps), gradients: await readVector(policy, "gradients") };
}

describe.skipIf(!python)("passes of the torch engine", { timeout: soak ? 3_600_000 : 180_000 }, () => {
  // A torchrun that is killed leaves a folder where its temporary ones are.
  process.env.TMPDIR = temporaryFolder();
  const workers = [new TorchWorkers(), new TorchWorkers(2)] as const;
  const lora = { rank: 4, alpha: 8, dropout: 0, targetModules: "all-linear" } as const;

  it.each([
    ["all weights on one rank", {}, workers[0]],
    ["an adapter on one rank", { lora }, workers[0]],
    ["all weights on two ranks", {}, workers[1]],
  ] as const)("give the gradients of the serial order, in whatever order they come: %s", async (_, what, ranks) => {
    const policy = await ranks.open({ dir: storiesDir, ...what });
    const start = temporaryFolder();
    await policy.snapshot(start);
    for (let seed = 1; seed <= (soak ? 100 : 2); seed++) {
      const random = createRandom(seed);
      const rounds = Array.from({ length: 3 }, (): Round => {
        const trees = Array.from({ length: 8 }, () => forksOf(5 + random.below(60), random.below(500)));
        return { trees, wanted: new Set(trees.filter((_, i) => i === 0 || random.next() < 0.6)) };
      });
      const expected = await serial(policy, rounds);
      await policy.restore(start);
      const found = await interleaved(policy, rounds, random);
      await policy.restore(start);
      for (const [i, norm] of found.norms.entries())
        expect(norm / expected.norms[i]!, `seed ${seed}`).toBeCloseTo(1, 5);
      const apart = found.gradients.map((value, i) => value - expected.gradients[i]!);
      expect(normOf(apart) / normOf(expected.gradients), `seed ${seed}`).toBeLessThan(1e-5);
    }
    await policy.close();
  });

  it("take no memory once they are released, taken back or refused", async () => {
    const policy = await workers[0].open({ dir: storiesDir });
    const tree = lineOf(500, 1);
    const resident = () => {
      const status = readFileSync(`/proc/${policy.worker.pids[0]}/status`, "utf8");
      return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)![1]) * 1024;
    };
    const run = async (count: number) => {
      for (let i = 0; i < count; i++) {
        const pass = await policy.forward(tree);
        if (i % 3 === 0) pass.release();
        else if (i % 3 === 1) await policy.backward(pass, slopes(pass));
        else {
          await policy.step(adam);
          await expect(policy.backward(pass, slopes(pass))).rejects.toThrow("changed since this pass");
        }
      }
    };
    await run(21);
    const before = resident();
    // What a third of these would keep is more than seven times what is allowed below.
    const count = soak ? 999 : 150;
    await run(count);
    const each = policy.plan({ tokenBudget: 500, recompute: false, reference: false }).activations;
    expect(resident() - before).toBeLessThan((150 * each) / 20);
    await policy.close();
  });
});
