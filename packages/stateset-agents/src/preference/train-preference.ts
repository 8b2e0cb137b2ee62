/**
 * Learning from preference pairs without a reward model: DPO (Rafailov et al. 2023) and IPO (Azar et al. 2023).
 * The two sides of a pair share their prompt in the token tree; the reference is scored once, before the first step.
 */
import { z } from "zod";
import { dpoLoss } from "../algorithm/loss/dpo.ts";
import { ipoLoss } from "../algorithm/loss/ipo.ts";
import type { PreferenceLoss } from "../algorithm/loss/preference.ts";
import { describeList } from "../describe.ts";
import { alikeBatches, gather, scatter } from "../learning/micro-batch.ts";
import type { PassSettings } from "../learning/optimiser.ts";
import { addGradients, scorePasses } from "../learning/passes.ts";
import type { Policy, Reference } from "../policy/policy.ts";
import { exampleRecords } from "../run/example-records.ts";
import { runShape } from "../run/options.ts";
import { type FitResult, fit } from "../supervised/fit.ts";
import {
  type AgentOrPolicy,
  agentOrPolicyShape,
  type FitOptions,
  fitShape,
  policyOf,
  readFitOptions,
  splitFitOptions,
} from "../supervised/fit-options.ts";
import { encodePairs, type PairChains, type PreferenceInput, pairExamples, sideTokens } from "./pair.ts";
import { ReferenceScores, type ScoredPair, scorePairs, splitSides, unitOf } from "./reference-scores.ts";

export interface PreferenceEvaluation {
  loss: number;
  /** Share of pairs whose chosen side gained more over the reference than the rejected one. */
  accuracy: number;
  /** Mean of β·[(logπ − ref)_chosen − (logπ − ref)_rejected]. */
  margin: number;
  /** Share of pairs whose chosen side is the likelier one per token: this one can be asked of the base model too. */
  likelierChosen: number;
  pairs: number;
}

type AnyPair = PreferenceInput | PairChains;

export type PreferenceOptions = AgentOrPolicy &
  FitOptions & {
    /** `loadPreferencePairs` reads them from a file, `pairsFromGroups` makes them of ranked samples. */
    pairs: readonly AnyPair[];
    heldOut?: readonly AnyPair[];
    /** Default "dpo". */
    loss?: "dpo" | "ipo";
    /** How far the policy may move from the reference: smaller is further. Default 0.1. */
    beta?: number;
    /** The weights (under LoRA the adapter) it starts from, or the model without an adapter, as it was opened. Default "start". */
    reference?: "start" | "base";
  };

export interface PreferenceResult extends FitResult<PreferenceEvaluation> {
  pairs: number;
  dropped: number;
  /** Pairs one side of which spells control tokens (`<tool_call>` in a content): they are learnt as plain text. */
  spelt: number;
}

const settingsShape = {
  ...fitShape,
  loss: z.enum(["dpo", "ipo"]).default("dpo"),
  beta: z.number().positive().default(0.1),
  reference: z.enum(["start", "base"]).default("start"),
} as const;

const schema = z.strictObject({
  ...settingsShape,
  ...runShape,
  ...agentOrPolicyShape,
  pairs: z.array(z.custom<AnyPair>()).min(1),
  heldOut: z.array(z.custom<AnyPair>()).min(1).optional(),
});

/**
 * @example
 * await trainPreference({ agent, pairs: await loadPreferencePairs("pairs.jsonl"), loss: "dpo", beta: 0.1 });
 */
export async function trainPreference(options: PreferenceOptions): Promise<PreferenceResult> {
  const given = readFitOptions(schema, options, ["dpo", "ipo"], "trainPreference()");
  const { agent, pairs, heldOut } = given;
  const policy = await policyOf(given, "trainPreference()");
  const { settings, on } = splitFitOptions(given, settingsShape, policy.model);
  const { tokenBudget, loss } = settings;
  const { contextLength } = policy.model;
  const encoded = encodePairs(policy.tokenizer, pairs, contextLength);
  const test = heldOut && encodePairs(policy.tokenizer, heldOut, contextLength).pairs;
  const scores = new ReferenceScores({
    policy,
    of: settings.reference,
    tokenBudget,
    pairs: encoded.pairs,
    heldOut: test,
  });
  const lossOf = loss === "dpo" ? dpoLoss(settings) : ipoLoss(settings);
  const tokens = encoded.pairs.map(({ chosen, rejected }) => sideTokens(chosen) + sideTokens(rejected));

  const result = await fit<PreferenceEvaluation>({
    learner: loss,
    policy,
    agent,
    on,
    settings,
    defaults: { ...z.object(settingsShape).parse({}), loss },
    data: { pairs: describeList(pairs), ...(heldOut && { heldOut: describeList(heldOut) }) },
    // The weights it started from are gone: what they gave is kept, and nothing else can be scored with them.
    fixed: settings.reference === "start" ? ["data", "settings.reference"] : [],
    count: encoded.pairs.length,
    cut: encoded.dropped > 0 ? cutText(pairs.length, encoded.dropped) : undefined,
    parts: { scores },
    prepare: (signal) => scores.prepare(signal),
    record: (batch, step) =>
      exampleRecords(
        step,
        batch.flatMap((i) => pairExamples(encoded.pairs[i]!, encoded.sources[i]!)),
      ),
    learn: (batch, signal) => learn(policy, scores.pairsOf(batch), lossOf, settings, signal),
    tokens: (batch) => batch.reduce((sum, i) => sum + tokens[i]!, 0),
    evaluate: test && ((signal) => evaluate(policy, scores.heldOut, lossOf, tokenBudget, signal)),
  });
  return { ...result, pairs: encoded.pairs.length, dropped: encoded.dropped, spelt: encoded.spelt };
}

function cutText(pairs: number, dropped: number): string {
  return `Of ${pairs} pairs ${dropped} were left out: their sides are equal, or do not fit the model's context.`;
}

/** How a policy ranks pairs, against a reference: by default the model without an adapter, or as it was opened. */
export async function evaluatePreference(
  policy: Policy,
  pairs: readonly AnyPair[],
  options: { loss?: "dpo" | "ipo"; beta?: number; tokenBudget?: number; reference?: Reference } = {},
): Promise<PreferenceEvaluation> {
  const { loss = "dpo", beta = 0.1, tokenBudget = 8192 } = options;
  const encoded = encodePairs(policy.tokenizer, pairs, policy.model.contextLength);
  const reference = options.reference ?? (await policy.reference("base"));
  const scored = await scorePairs(reference, encoded.pairs, tokenBudget);
  if (!options.reference) await reference.close();
  return evaluate(policy, scored, loss === "dpo" ? dpoLoss({ beta }) : ipoLoss({ beta }), tokenBudget);
}

async function learn(
  policy: Policy,
  batch: readonly ScoredPair[],
  lossOf: PreferenceLoss,
  { tokenBudget, recompute }: PassSettings,
  signal: AbortSignal | undefined,
): Promise<number> {
  const batches = alikeBatches(batch.map(unitOf), tokenBudget);
  return addGradients(
    policy,
    batches,
    { recompute },
    (micro, pass) => {
      const pairs = micro.members.map((member) => batch[member]!);
      const { loss, dChosen, dRejected } = lossOf(withLogprobs(pairs, gather(micro, pass.logprobs)), {
        pairs: batch.length,
      });
      const derivatives = pairs.map((_, i) => joined(dChosen[i]!, dRejected[i]!));
      return { loss, derivatives: { logprobs: scatter(micro, derivatives) } };
    },
    signal,
  );
}

async function evaluate(
  policy: Policy,
  all: readonly ScoredPair[],
  lossOf: PreferenceLoss,
  tokenBudget: number,
  signal?: AbortSignal,
): Promise<PreferenceEvaluation> {
  const sums = { loss: 0, accuracy: 0, margin: 0, likelierChosen: 0 };
  await scorePasses(
    policy,
    alikeBatches(all.map(unitOf), tokenBudget),
    {},
    (micro, pass) => {
      const pairs = micro.members.map((member) => all[member]!);
      for (const pair of withLogprobs(pairs, gather(micro, pass.logprobs))) {
        const { loss, metrics } = lossOf([pair], { pairs: all.length });
        const margin = metrics.margin!.sum;
        sums.loss += loss;
        sums.margin += margin / all.length;
        // A tie is a coin toss; before the first step every margin is exactly 0.
        sums.accuracy += (margin > 0 ? 1 : margin === 0 ? 0.5 : 0) / all.length;
        sums.likelierChosen += (mean(pair.chosen.logprobs) > mean(pair.rejected.logprobs) ? 1 : 0) / all.length;
      }
    },
    signal,
  );
  return { ...sums, pairs: all.length };
}

/** The settings of trainPreference(), without those of its run. */
export { settingsShape as preferenceShape };

function joined(a: Float32Array, b: Float32Array): Float32Array {
  const all = new Float32Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}

function withLogprobs(pairs: readonly ScoredPair[], logprobs: readonly Float32Array[]) {
  return pairs.map((pair, i) => {
    const [chosen, rejected] = splitSides(pair, logprobs[i]!);
    return {
      chosen: { logprobs: chosen, ref: pair.refChosen },
      rejected: { logprobs: rejected, ref: pair.refRejected },
    };
  });
}

function mean(values: Float32Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
