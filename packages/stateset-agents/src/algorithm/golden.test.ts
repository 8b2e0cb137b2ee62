/** Every loss and advantage against an independent PyTorch implementation (scripts/golden), values and gradients. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { baselineAdvantages } from "./advantage/baseline.ts";
import { withGroupTokens } from "./advantage/batch.ts";
import { gaeAdvantages, nStep, valueAdvantages, valueBeyond } from "./advantage/gae.ts";
import { groupAdvantages } from "./advantage/group.ts";
import { leaveOneOutAdvantages } from "./advantage/leave-one-out.ts";
import { lengthAdaptiveAdvantages } from "./advantage/length-adaptive-gae.ts";
import { multiRewardAdvantages } from "./advantage/multi-reward.ts";
import { reinforcePlusPlusAdvantages } from "./advantage/reinforce-plus-plus.ts";
import { stateAdvantages } from "./advantage/state-credit.ts";
import { tokenRewards, turnAdvantages } from "./advantage/turn-credit.ts";
import type { Advantages, BatchCounts, LossFunction, LossSequence, Sequence } from "./algorithm.ts";
import { keepUncertainTokens } from "./entropy-mask.ts";
import { a2cLoss } from "./loss/a2c.ts";
import { bnpoLoss } from "./loss/bnpo.ts";
import { bradleyTerryLoss, type ScoredPair } from "./loss/bradley-terry.ts";
import { cispoLoss } from "./loss/cispo.ts";
import { dapoLoss } from "./loss/dapo.ts";
import { dpoLoss } from "./loss/dpo.ts";
import { drGrpoLoss } from "./loss/dr-grpo.ts";
import { gepoLoss, withGroupExpectation } from "./loss/gepo.ts";
import { gmpoLoss } from "./loss/gmpo.ts";
import { grpoLoss } from "./loss/grpo.ts";
import { gspoLoss } from "./loss/gspo.ts";
import { gspoTokenLoss } from "./loss/gspo-token.ts";
import { hingeLoss } from "./loss/hinge.ts";
import { ipoLoss } from "./loss/ipo.ts";
import { klBaseline, ktoLoss } from "./loss/kto.ts";
import { luspoLoss } from "./loss/luspo.ts";
import { orpoLoss } from "./loss/orpo.ts";
import { ppoLoss } from "./loss/ppo.ts";
import { reinforceLoss } from "./loss/reinforce.ts";
import { reinforcePlusPlusLoss } from "./loss/reinforce-plus-plus.ts";
import { rlooLoss } from "./loss/rloo.ts";
import { robustDpoLoss } from "./loss/robust-dpo.ts";
import { sapoLoss } from "./loss/sapo.ts";
import { sftLoss } from "./loss/sft.ts";
import { trpoKl, trpoLoss } from "./loss/trpo.ts";
import { vapoLoss, withPositiveScale } from "./loss/vapo.ts";
import { meanMetrics } from "./metrics.ts";
import { maskOffPolicy } from "./off-policy-mask.ts";

const fixtures = fileURLToPath(new URL("./fixtures/", import.meta.url));
const load = <T>(name: string, dir = fixtures): T => JSON.parse(readFileSync(join(dir, `${name}.json`), "utf8")) as T;

type Rows = number[][];
interface LossCase {
  batch: number;
  options: Record<string, unknown>;
  loss: number;
  dLogprobs: Rows;
  dEntropy?: Rows;
  dValues?: Rows;
  metrics: Record<string, number>;
}
interface AdvantageCase {
  batch: number;
  options: Record<string, unknown>;
  advantages: Rows;
  returns?: Rows;
}
interface StoredSide {
  logprobs: number[];
  ref: number[];
}
interface PreferenceCase {
  options: { beta: number; labelSmoothing?: number };
  pairs: Record<"chosen" | "rejected", StoredSide>[];
  loss: number;
  dChosen: Rows;
  dRejected: Rows;
}
interface StoredBatch {
  counts: BatchCounts;
  sequences: (Record<string, unknown> & { turn: number[] })[];
}

const perToken = ["old", "logprobs", "sampled", "ref", "entropy", "oldValues", "values", "returns", "advantages"];
const batches = load<StoredBatch[]>("batches").map(({ counts, sequences }) => ({
  counts,
  sequences: sequences.map((stored) => {
    const arrays = perToken.map((key) => [key, Float32Array.from(stored[key] as number[])]);
    return { ...stored, truncated: false, turn: Int32Array.from(stored.turn), ...Object.fromEntries(arrays) };
  }) as unknown as LossSequence[],
}));

/** 1e-6 relative, with a floor of 1e-12 of the largest number around for what should cancel to zero. */
function expectClose(actual: ArrayLike<number>, expected: readonly number[], what: string, largest = 1): void {
  expect(actual.length, what).toBe(expected.length);
  for (const [i, value] of expected.entries()) {
    const allowed = 1e-6 * Math.abs(value) + 1e-12 * Math.max(1, largest);
    if (!(Math.abs(actual[i]! - value) <= allowed)) expect.fail(`${what}[${i}]: ${actual[i]} instead of ${value}`);
  }
}

function expectRows(actual: readonly ArrayLike<number>[] | undefined, expected: Rows | undefined, what: string): void {
  const largest = Math.max(0, ...(expected ?? []).flat().map(Math.abs));
  if (expected)
    for (const [i, row] of expected.entries()) expectClose(actual?.[i] ?? [], row, `${what}[${i}]`, largest);
  // Where autograd found no dependence, the derivative is absent or zero.
  else for (const row of actual ?? []) expect(Array.from(row).every((d) => d === 0)).toBe(true);
}

// Options come from the fixture and are exactly what the loss of that name takes.
type Build = (options: never) => LossFunction;
const losses: Record<string, Build> = {
  grpo: grpoLoss,
  "dr-grpo": drGrpoLoss,
  bnpo: bnpoLoss,
  dapo: dapoLoss,
  gspo: gspoLoss,
  "gspo-token": gspoTokenLoss,
  gepo: gepoLoss,
  cispo: cispoLoss,
  sapo: sapoLoss,
  gmpo: gmpoLoss,
  luspo: luspoLoss,
  "off-policy-mask": ({ threshold, ...options }: Parameters<typeof grpoLoss>[0] & { threshold: number }) => {
    const loss = grpoLoss(options);
    return (micro, counts) =>
      loss(
        micro.map((own) => maskOffPolicy(own, threshold)),
        counts,
      );
  },
  ppo: ppoLoss,
  vapo: vapoLoss,
  a2c: a2cLoss,
  trpo: trpoLoss,
  "trpo-kl": () => trpoKl,
  reinforce: reinforceLoss,
  rloo: rlooLoss,
  "reinforce++": reinforcePlusPlusLoss,
  sft: () => sftLoss,
};

/** What advantages() of the algorithm would add to the sequences. */
function prepare(name: string, sequences: readonly LossSequence[], options: Record<string, unknown>): LossSequence[] {
  let context: Advantages[] = sequences.map(({ advantages }) => ({ advantages }));
  if (name === "bnpo") context = withGroupTokens(sequences, context);
  if (name === "gepo") context = withGroupExpectation(sequences, context);
  if (name === "vapo") context = withPositiveScale(sequences, context, options.successThreshold as number);
  return sequences.map((sequence, i) => ({ ...sequence, ...context[i]! }));
}

const lossCases = load<Record<string, LossCase[]>>("losses");
describe("losses equal PyTorch in value, gradient and metrics", () => {
  it("covers every loss there is a fixture for", () => {
    expect(Object.keys(losses).sort()).toEqual(Object.keys(lossCases).sort());
  });
  for (const [name, cases] of Object.entries(lossCases)) {
    it(`${name}: ${cases.length} cases`, () => {
      expect(cases.length).toBeGreaterThanOrEqual(20);
      for (const [n, expected] of cases.entries()) {
        const { counts, sequences } = batches[expected.batch]!;
        const micro = prepare(name, sequences, expected.options);
        const result = losses[name]!(expected.options as never)(micro, counts);
        const what = `${name} case ${n}`;
        const largest = Math.max(...expected.dLogprobs.flat().map(Math.abs));
        expectClose([result.loss], [expected.loss], `${what} loss`, largest);
        expectRows(result.dLogprobs, expected.dLogprobs, `${what} dLogprobs`);
        expectRows(result.dEntropy, expected.dEntropy, `${what} dEntropy`);
        expectRows(result.dValues, expected.dValues, `${what} dValues`);
        if (name === "sft") continue;
        const means = meanMetrics(result.metrics);
        for (const [metric, value] of Object.entries(expected.metrics))
          expectClose([means[metric] ?? Number.NaN], [value], `${what} ${metric}`);
      }
    });
  }
});

type Estimate = (sequences: readonly Sequence[], options: never) => Advantages[];
const advantages: Record<string, Estimate> = {
  group: groupAdvantages,
  "leave-one-out": leaveOneOutAdvantages,
  baseline: baselineAdvantages,
  "reinforce-plus-plus": reinforcePlusPlusAdvantages,
  gae: gaeAdvantages,
  "n-step": (sequences, { gamma, nSteps, bootstrap }: { gamma: number; nSteps: number; bootstrap: boolean }) =>
    valueAdvantages(sequences, false, (sequence, values) =>
      nStep(tokenRewards(sequence), values, gamma, nSteps, valueBeyond(sequence, bootstrap)),
    ),
  "length-adaptive-gae": lengthAdaptiveAdvantages,
  "turn-credit": turnAdvantages,
  "state-credit": stateAdvantages,
  "multi-reward": multiRewardAdvantages,
  "entropy-quantile": (sequences, { share }: { share: number }) => {
    const scored = (sequences as LossSequence[]).map((own) => ({ ...own, oldEntropy: own.entropy! }));
    const own = scored.map(({ advantages }) => ({ advantages }));
    return keepUncertainTokens(scored, own, share).advantages;
  },
};

const advantageCases = load<Record<string, AdvantageCase[]>>("advantages");
describe("advantages equal the masked reference", () => {
  it("covers every advantage there is a fixture for", () => {
    expect(Object.keys(advantages).sort()).toEqual(Object.keys(advantageCases).sort());
  });
  for (const [name, cases] of Object.entries(advantageCases)) {
    it(`${name}: ${cases.length} cases`, () => {
      expect(cases.length).toBeGreaterThanOrEqual(20);
      for (const [n, expected] of cases.entries()) {
        const result = advantages[name]!(batches[expected.batch]!.sequences, expected.options as never);
        const what = `${name} case ${n}`;
        expectRows(
          result.map((own) => own.advantages),
          expected.advantages,
          what,
        );
        if (expected.returns)
          expectRows(
            result.map((own) => own.returns!),
            expected.returns,
            `${what} returns`,
          );
        else expect(result.every((own) => own.returns === undefined)).toBe(true);
      }
    });
  }
});

const pairLosses = {
  dpo: dpoLoss,
  "conservative-dpo": dpoLoss,
  robust: robustDpoLoss,
  hinge: hingeLoss,
  ipo: ipoLoss,
  orpo: orpoLoss,
};
const preferenceCases = load<
  Record<keyof typeof pairLosses, PreferenceCase[]> & { kto: KtoCase[]; "bradley-terry": BradleyTerryCase[] }
>("preferences");
interface KtoCase {
  options: { beta: number; desirableWeight: number; undesirableWeight: number };
  completions: (StoredSide & { desirable: boolean })[];
  mismatched: StoredSide[];
  loss: number;
  kl: number;
  dLogprobs: Rows;
}
interface BradleyTerryCase {
  pairs: ScoredPair[];
  loss: number;
  dChosen: number[];
  dRejected: number[];
}

describe("preference losses equal PyTorch", () => {
  const side = ({ logprobs, ref }: StoredSide) => ({
    logprobs: Float32Array.from(logprobs),
    ref: Float32Array.from(ref),
  });

  it("covers every loss there is a fixture for", () => {
    expect([...Object.keys(pairLosses), "kto", "bradley-terry"].sort()).toEqual(Object.keys(preferenceCases).sort());
  });

  for (const name of Object.keys(pairLosses) as (keyof typeof pairLosses)[]) {
    it(`${name}: ${preferenceCases[name].length} cases`, () => {
      expect(preferenceCases[name].length).toBeGreaterThanOrEqual(20);
      for (const { options, pairs, loss, dChosen, dRejected } of preferenceCases[name]) {
        const micro = pairs.map(({ chosen, rejected }) => ({ chosen: side(chosen), rejected: side(rejected) }));
        const result = pairLosses[name](options)(micro, { pairs: pairs.length });
        expectClose([result.loss], [loss], name);
        expectRows(result.dChosen, dChosen, `${name} dChosen`);
        expectRows(result.dRejected, dRejected, `${name} dRejected`);
      }
    });
  }

  it(`kto: ${preferenceCases.kto.length} cases`, () => {
    expect(preferenceCases.kto.length).toBeGreaterThanOrEqual(20);
    for (const { options, completions, mismatched, loss, kl, dLogprobs } of preferenceCases.kto) {
      const baseline = klBaseline(mismatched.map(side));
      expectClose([baseline], [kl], "z");
      const micro = completions.map(({ desirable, ...own }) => ({ ...side(own), desirable }));
      const result = ktoLoss(options)(micro, { completions: micro.length }, baseline);
      expectClose([result.loss], [loss], "loss");
      expectRows(result.dLogprobs, dLogprobs, "dLogprobs");
    }
    expect(new Set(preferenceCases.kto.map(({ kl }) => kl > 0)).size).toBe(2);
  });

  it(`bradley-terry: ${preferenceCases["bradley-terry"].length} cases`, () => {
    expect(preferenceCases["bradley-terry"].length).toBeGreaterThanOrEqual(20);
    for (const { pairs, loss, dChosen, dRejected } of preferenceCases["bradley-terry"]) {
      const result = bradleyTerryLoss(pairs, { pairs: pairs.length });
      expectClose([result.loss], [loss], "loss");
      expectRows([result.dChosen, result.dRejected], [dChosen, dRejected], "gradient");
    }
  });
});

const python = process.env.STATESET_PYTHON;
describe.skipIf(!python)("the fixtures are what the script makes (needs STATESET_PYTHON, a Python with torch)", () => {
  it("regenerates the first cases of every fixture", () => {
    const script = fileURLToPath(new URL("../../../../scripts/golden/make_goldens.py", import.meta.url));
    const out = mkdtempSync(join(tmpdir(), "goldens-"));
    try {
      execFileSync(python!, [script, "--out", out, "--batches", "5"], { stdio: "pipe" });
      for (const name of ["batches", "losses", "advantages", "preferences", "shaping"]) {
        const fresh = load<unknown>(name, out);
        const stored = load<unknown>(name);
        const first = Array.isArray(stored)
          ? stored.slice(0, 5)
          : Object.fromEntries(
              Object.entries(stored as Record<string, unknown[]>).map(([key, all]) => [key, all.slice(0, 5)]),
            );
        expectAlike(fresh, first, name);
      }
    } finally {
      rmSync(out, { recursive: true, force: true });
    }
  });
});

/** Equal structure, numbers within 1e-8: other builds of torch may round the last digits differently. */
function expectAlike(actual: unknown, expected: unknown, where: string): void {
  if (typeof expected === "number") {
    const allowed = 1e-8 * Math.max(1, Math.abs(expected));
    if (typeof actual !== "number" || !(Math.abs(actual - expected) <= allowed))
      expect.fail(`${where}: the script gives ${actual}, the fixture holds ${expected}`);
  } else if (typeof expected === "object" && expected !== null) {
    expect(Object.keys(actual as object), where).toEqual(Object.keys(expected));
    for (const [key, value] of Object.entries(expected))
      expectAlike((actual as Record<string, unknown>)[key], value, `${where}.${key}`);
  } else expect(actual, where).toBe(expected);
}
