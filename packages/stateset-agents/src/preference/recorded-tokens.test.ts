/** The numbers beside each token in the files of a run that learns from data are those that its loss was given and gave, to the bit. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { LabelledSide } from "../algorithm/loss/kto.ts";
import type { PreferenceSide } from "../algorithm/loss/preference.ts";
import { learnPlaces } from "../conversation/learn-tokens.ts";
import { readTrajectories, type TrajectoryRecord, trajectorySteps } from "../run/trajectories.ts";
import { tableLearner } from "../test-support/table-learners.ts";

/** Arguments and results of the losses of a run, in the order of their calls. */
const calls = vi.hoisted(() => [] as { micro: unknown[]; result: Record<string, unknown> }[]);
const noting = vi.hoisted(
  () =>
    // biome-ignore lint/suspicious/noExplicitAny: any loss
    <F extends (...args: any[]) => any>(loss: F): F =>
      ((micro: unknown[], ...rest: unknown[]) => {
        const result = loss(micro, ...rest);
        calls.push(structuredClone({ micro, result }));
        return result;
      }) as F,
);
vi.mock("../algorithm/loss/dpo.ts", async (original) => {
  const { dpoLoss } = await original<typeof import("../algorithm/loss/dpo.ts")>();
  return { dpoLoss: (options: object) => noting(dpoLoss(options)) };
});
vi.mock("../algorithm/loss/orpo.ts", async (original) => {
  const { orpoLoss } = await original<typeof import("../algorithm/loss/orpo.ts")>();
  return { orpoLoss: (options: object) => noting(orpoLoss(options)) };
});
vi.mock("../algorithm/loss/kto.ts", async (original) => {
  const real = await original<typeof import("../algorithm/loss/kto.ts")>();
  return { ...real, ktoLoss: (options: object) => noting(real.ktoLoss(options)) };
});
vi.mock("../algorithm/loss/sft.ts", async (original) => {
  const { sftLoss } = await original<typeof import("../algorithm/loss/sft.ts")>();
  return { sftLoss: noting(sftLoss) };
});
vi.mock("../algorithm/loss/bradley-terry.ts", async (original) => {
  const real = await original<typeof import("../algorithm/loss/bradley-terry.ts")>();
  return { ...real, bradleyTerryLoss: noting(real.bradleyTerryLoss) };
});

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "tokens-"));
  calls.length = 0;
});
afterEach(() => rmSync(dir, { recursive: true }));

/** A run without evaluations, of which every example of every step is written. */
async function recorded(kind: Parameters<typeof tableLearner>[0]): Promise<TrajectoryRecord[]> {
  const options = { trajectories: { every: 1, perStep: 99 }, heldOut: undefined };
  await tableLearner(kind).run({ dir, epochs: 2, ...options });
  const steps = trajectorySteps(dir);
  expect(steps.length).toBe(8);
  return steps.flatMap((step) => readTrajectories(dir, step));
}

const columnOf = ({ chains }: TrajectoryRecord, name: "advantage" | "ratio" | "entropy" | "reference" | "value") =>
  chains.flatMap(({ columns }) => [...columns![name]]);
const logprobsOf = ({ chains }: TrajectoryRecord) =>
  chains.flatMap(({ columns }) => learnPlaces(columns!).map((place) => columns!.logprobs[place]!));
const isUnknown = (numbers: readonly number[]) => numbers.every(Number.isNaN);

/** −∂(own loss)/∂logprob, of derivatives of a mean over so many. */
const pushed = (derivatives: Float32Array, count: number) => [...derivatives].map((d) => Math.fround(-d * count));

/** What the losses saw, an entry an example: each is asked for once a step, batches of two and at last one. */
function sidesOf<S>(of: (call: (typeof calls)[number], i: number) => S): S[] {
  return calls.flatMap((call) => call.micro.map((_, i) => of(call, i)));
}

interface Side {
  logprobs: number[];
  reference?: number[];
  advantage: number[];
}

/** Each recorded example is one of those that the loss saw, and no two are the same one. */
function expectAll(records: readonly TrajectoryRecord[], seen: readonly Side[]): void {
  expect(records.length).toBe(seen.length);
  const left = [...seen];
  for (const record of records) {
    const own = {
      logprobs: logprobsOf(record),
      ...(!isUnknown(columnOf(record, "reference")) && { reference: columnOf(record, "reference") }),
      advantage: columnOf(record, "advantage"),
    };
    const at = left.findIndex((side) => JSON.stringify(side) === JSON.stringify(own));
    expect(at, `${record.step} ${record.id} ${JSON.stringify(own)}`).toBeGreaterThanOrEqual(0);
    left.splice(at, 1);
    for (const name of ["ratio", "entropy", "value"] as const) expect(isUnknown(columnOf(record, name))).toBe(true);
  }
}

/** Examples of a step: seven of them in batches of two, so that the fourth step of an epoch has one. */
const sizeOf = (step: number) => (step % 4 === 0 ? 1 : 2);

describe("recorded tokens have the numbers of the loss", { timeout: 60_000 }, () => {
  it.each(["dpo", "orpo"] as const)("in %s, on both sides", async (kind) => {
    const records = await recorded(kind);
    let step = 0;
    let left = 0;
    const seen = sidesOf(({ micro, result }, i): Record<"chosen" | "rejected", Side> => {
      if (left === 0) left = sizeOf(++step);
      left--;
      const pair = micro[i] as Record<"chosen" | "rejected", PreferenceSide>;
      const side = (name: "chosen" | "rejected", derivatives: unknown): Side => ({
        logprobs: [...pair[name].logprobs],
        ...(kind === "dpo" && { reference: [...pair[name].ref] }),
        advantage: pushed((derivatives as Float32Array[])[i]!, sizeOf(step)),
      });
      return { chosen: side("chosen", result.dChosen), rejected: side("rejected", result.dRejected) };
    });
    for (const name of ["chosen", "rejected"] as const) {
      expectAll(
        records.filter(({ side }) => side === name),
        seen.map((pair) => pair[name]),
      );
    }
    // The chosen side is pulled up, the other pushed down.
    for (const record of records) {
      const sign = record.side === "chosen" ? 1 : -1;
      expect(columnOf(record, "advantage").every((push) => push * sign > 0)).toBe(true);
    }
  });

  it("in KTO", async () => {
    const records = await recorded("kto");
    let step = 0;
    let left = 0;
    const seen = sidesOf(({ micro, result }, i): Side => {
      if (left === 0) left = sizeOf(++step);
      left--;
      const { logprobs, ref } = micro[i] as LabelledSide;
      return {
        logprobs: [...logprobs],
        reference: [...ref],
        advantage: pushed((result.dLogprobs as Float32Array[])[i]!, sizeOf(step)),
      };
    });
    expectAll(records, seen);
  });

  it("in SFT, which has log-probs alone: every token is pulled up alike", async () => {
    const records = await recorded("sft");
    const seen = sidesOf(({ micro }, i) => [...(micro[i] as { logprobs: Float32Array }).logprobs]);
    expect(records.map(logprobsOf).sort()).toEqual(seen.sort());
    for (const record of records) {
      for (const name of ["advantage", "ratio", "entropy", "reference", "value"] as const) {
        expect(isUnknown(columnOf(record, name))).toBe(true);
      }
      // What is not learnt has none, as in what is sampled.
      const { logprobs, learn } = record.chains[0]!.columns!;
      expect([...logprobs].every((logprob, i) => learn[i] === 1 || logprob === 0)).toBe(true);
    }
  });

  it("in a reward model, which says one number of a whole conversation", async () => {
    const records = await recorded("reward-model");
    // A side that is missing has the score 0; within a step the loss sees them in another order.
    const seen = sidesOf(({ micro }, i) => micro[i] as { chosen: number; rejected: number });
    const numbers = records.map(({ metadata }) => metadata!.score as number);
    expect(numbers.toSorted()).toEqual(seen.map(({ chosen, rejected }) => chosen || rejected).toSorted());
    expect(new Set(numbers).size).toBeGreaterThan(4);
    for (const record of records) expect(isUnknown([...record.chains[0]!.columns!.logprobs])).toBe(true);
  });

  it("in a value function", async () => {
    const { policy, run } = tableLearner("value-function");
    const passes: number[][] = [];
    const forward = policy.forward.bind(policy);
    policy.forward = async (tree, options) => {
      const pass = await forward(tree, options);
      passes.push([...pass.values!]);
      return pass;
    };
    await run({ dir, epochs: 2, trajectories: { every: 1, perStep: 99 } } as Parameters<typeof run>[0]);
    const records = trajectorySteps(dir).map((step) => readTrajectories(dir, step));
    expect(records.length).toBe(passes.length);
    for (const [i, step] of records.entries()) {
      for (const record of step) {
        const values = columnOf(record, "value");
        expect(values.length).toBeGreaterThan(0);
        expect(values.every((value) => passes[i]!.includes(value))).toBe(true);
      }
    }
  });
});
