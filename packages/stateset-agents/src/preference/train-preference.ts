/**
 * Learning from preferences without a reward model: DPO and its variants (label smoothing, robust, hinge), IPO, ORPO on pairs; KTO on
 * single completions with a label. The two sides of a pair share their prompt in the token tree; the reference is scored once, before
 * the first step.
 */
import { z } from "zod";
import { mean } from "../algorithm/advantage/batch.ts";
import { type PreferenceLoss, preferenceLossNames } from "../algorithm/loss/preference.ts";
import { describeList } from "../describe.ts";
import { StatesetError } from "../error.ts";
import { alikeBatches, gather, scatter } from "../learning/micro-batch.ts";
import { batchTokens, defaultTokenBudget, type PassSettings } from "../learning/optimiser.ts";
import { addGradients, scorePasses } from "../learning/passes.ts";
import type { Policy, Reference } from "../policy/policy.ts";
import { exampleRecords, pushOf, type SeenNumbers } from "../run/example-records.ts";
import { runShape } from "../run/options.ts";
import { type FitResult, fit } from "../supervised/fit.ts";
import {
  type AgentOrPolicy,
  agentOrPolicyShape,
  type FitOptions,
  policyOf,
  readFitOptions,
  splitFitOptions,
} from "../supervised/fit-options.ts";
import type { LabelledCompletion } from "./labelled.ts";
import {
  fixedBy,
  type PairLossName,
  type PreferenceRun,
  pairLoss,
  refuseOthers,
  settingsShape,
  shapeFor,
} from "./losses.ts";
import { encodePairs, type PairChains, type PreferenceInput, pairExamples, sideTokens } from "./pair.ts";
import {
  ReferenceScores,
  type ScoredPair,
  scorePairs,
  seenSides,
  splitSides,
  unitOf,
  unscored,
} from "./reference-scores.ts";
import { type KtoTrainingResult, trainKto } from "./train-kto.ts";

export interface PreferenceEvaluation {
  loss: number;
  /** Share of pairs whose chosen side gained more over the reference than the rejected one; of ORPO, is the likelier one per token. */
  accuracy: number;
  /** Mean of β·[(logπ − ref)_chosen − (logπ − ref)_rejected]; of ORPO, of β times the difference of the mean log-probs. */
  margin: number;
  /** Share of pairs whose chosen side is the likelier one per token: this one can be asked of the base model too. */
  likelierChosen: number;
  pairs: number;
}

type AnyPair = PreferenceInput | PairChains;

type LearnsFrom = AgentOrPolicy &
  FitOptions & {
    /** How far the policy may move from the reference: smaller is further. Of ORPO the weight of the odds ratio. Default 0.1. */
    beta?: number;
    /** The weights (under LoRA the adapter) it starts from, or the model without an adapter, as it was opened. Default "start". ORPO has none. */
    reference?: "start" | "base";
  };

export type PreferenceOptions = LearnsFrom & {
  /** `loadPreferencePairs` reads them from a file, `pairsFromGroups` makes them of ranked samples. */
  pairs: readonly AnyPair[];
  heldOut?: readonly AnyPair[];
  /** Default "dpo". */
  loss?: PairLossName;
  /** Share of the labels taken to be wrong, below 0.5; of "dpo" and "robust". Default 0. */
  labelSmoothing?: number;
};

export type KtoTrainingOptions = LearnsFrom & {
  loss: "kto";
  /** Weights of the two kinds, to balance them. Default 1. */
  desirableWeight?: number;
  undesirableWeight?: number;
  heldOut?: readonly (LabelledCompletion | PreferenceInput)[];
} & (
    | {
        /** `loadLabelledCompletions` reads them from a file. */
        completions: readonly LabelledCompletion[];
        pairs?: never;
      }
    | {
        /** Each counts as a desirable and an undesirable completion. */
        pairs: readonly PreferenceInput[];
        completions?: never;
      }
  );

export interface PreferenceResult extends FitResult<PreferenceEvaluation> {
  pairs: number;
  dropped: number;
  /** Pairs one side of which spells control tokens (`<tool_call>` in a content): they are learnt as plain text. */
  spelt: number;
}

const someData = z.array(z.custom<never>()).min(1).optional();

const schema = z.strictObject({
  ...settingsShape,
  ...runShape,
  ...agentOrPolicyShape,
  pairs: someData,
  completions: someData,
  heldOut: someData,
});

/**
 * @example
 * await trainPreference({ agent, pairs: await loadPreferencePairs("pairs.jsonl"), loss: "dpo", beta: 0.1 });
 * await trainPreference({ agent, completions: await loadLabelledCompletions("labels.jsonl"), loss: "kto" });
 */
export async function trainPreference(options: PreferenceOptions): Promise<PreferenceResult>;
export async function trainPreference(options: KtoTrainingOptions): Promise<KtoTrainingResult>;
export async function trainPreference(
  options: PreferenceOptions | KtoTrainingOptions,
): Promise<PreferenceResult | KtoTrainingResult>;
export async function trainPreference(
  options: PreferenceOptions | KtoTrainingOptions,
): Promise<PreferenceResult | KtoTrainingResult> {
  const given = readFitOptions(schema, options, preferenceLossNames, "trainPreference()");
  const { agent, loss, heldOut } = given;
  refuseOthers(loss, { ...options }, given.labelSmoothing);
  const data = dataOf(given);
  const policy = await policyOf(given, "trainPreference()");
  const shape = shapeFor(loss);
  const { settings, on } = splitFitOptions(given, shape, policy);
  const run = { policy, agent, on, settings, defaults: { ...z.object(shape).parse({}), loss } };
  return loss === "kto" ? trainKto(run, data, heldOut) : trainPairs(loss, run, data.items, heldOut);
}

/** What it is told to learn from, under the name it was given as. */
function dataOf({ loss, pairs, completions }: z.output<typeof schema>): { what: string; items: readonly never[] } {
  if (loss !== "kto" && completions) {
    throw new StatesetError(
      "INVALID_OPTION",
      `The loss "${loss}" of trainPreference() compares pairs, not completions.`,
      {
        hint: 'Give `pairs`, or set loss: "kto".',
      },
    );
  }
  const items = pairs ?? completions;
  if (!items || (pairs && completions)) {
    const one = loss === "kto" ? "`completions` or `pairs`, one of them" : "`pairs`";
    throw new StatesetError("INVALID_OPTION", `trainPreference() with the loss "${loss}" needs ${one}.`);
  }
  return { what: pairs ? "pairs" : "completions", items };
}

async function trainPairs(
  loss: PairLossName,
  { settings, ...run }: PreferenceRun,
  pairs: readonly AnyPair[],
  heldOut: readonly AnyPair[] | undefined,
): Promise<PreferenceResult> {
  const { policy } = run;
  const { tokenBudget } = settings;
  const { contextLength } = policy.model;
  const encoded = encodePairs(policy.tokenizer, pairs, contextLength);
  const test = heldOut && encodePairs(policy.tokenizer, heldOut, contextLength).pairs;
  const of = loss === "orpo" ? undefined : settings.reference;
  const scores = new ReferenceScores({ policy, of, tokenBudget, pairs: encoded.pairs, heldOut: test });
  const lossOf = pairLoss(loss, settings);
  const tokens = encoded.pairs.map(({ chosen, rejected }) => sideTokens(chosen) + sideTokens(rejected));

  const result = await fit<PreferenceEvaluation>({
    ...run,
    learner: loss,
    settings,
    data: { pairs: describeList(pairs), ...(heldOut && { heldOut: describeList(heldOut) }) },
    fixed: fixedBy(of),
    count: encoded.pairs.length,
    cut: encoded.dropped > 0 ? cutText(pairs.length, encoded.dropped) : undefined,
    parts: of === undefined ? {} : { scores },
    prepare: (signal) => scores.prepare(signal),
    record: (batch, step, seen) =>
      exampleRecords(
        step,
        batch.flatMap((i) => {
          const pair = encoded.pairs[i]!;
          return pairExamples(pair, encoded.sources[i]!, seenSides(pair, seen.get(i)));
        }),
      ),
    learn: (batch, signal, seen) =>
      learn(policy, scores.pairsOf(batch), lossOf, settings, {
        signal,
        note:
          seen &&
          ((member, { refChosen, refRejected }, numbers) => {
            const reference = of === undefined ? {} : { reference: joined(refChosen, refRejected) };
            seen.set(batch[member]!, { ...numbers, ...reference });
          }),
      }),
    tokens: (batch) => batch.reduce((sum, i) => sum + tokens[i]!, 0),
    evaluate: test && ((signal) => evaluate(policy, scores.heldOut, lossOf, tokenBudget, signal)),
  });
  return { ...result, pairs: encoded.pairs.length, dropped: encoded.dropped, spelt: encoded.spelt };
}

function cutText(pairs: number, dropped: number): string {
  return `Of ${pairs} pairs ${dropped} were left out: their sides are equal, or do not fit the model's context.`;
}

/** How a policy ranks pairs, against a reference: by default the model without an adapter, or as it was opened. ORPO asks none. */
export async function evaluatePreference(
  policy: Policy,
  pairs: readonly AnyPair[],
  options: {
    /** Default "dpo". */
    loss?: PreferenceOptions["loss"];
    beta?: number;
    labelSmoothing?: number;
    tokenBudget?: number;
    reference?: Reference;
  } = {},
): Promise<PreferenceEvaluation> {
  const { loss = "dpo", tokenBudget = defaultTokenBudget(policy) } = options;
  const encoded = encodePairs(policy.tokenizer, pairs, policy.model.contextLength).pairs;
  const scored =
    loss === "orpo" ? encoded.map(unscored) : await referred(policy, encoded, tokenBudget, options.reference);
  return evaluate(policy, scored, pairLoss(loss, options), tokenBudget);
}

async function referred(
  policy: Policy,
  pairs: readonly PairChains[],
  tokenBudget: number,
  given: Reference | undefined,
): Promise<ScoredPair[]> {
  const reference = given ?? (await policy.reference("base"));
  const scored = await scorePairs(reference, pairs, tokenBudget);
  if (!given) await reference.close();
  return scored;
}

async function learn(
  policy: Policy,
  batch: readonly ScoredPair[],
  lossOf: PreferenceLoss,
  { tokenBudget, recompute }: PassSettings,
  {
    signal,
    note,
  }: {
    signal: AbortSignal | undefined;
    note: ((member: number, pair: ScoredPair, numbers: SeenNumbers) => void) | undefined;
  },
): Promise<number> {
  const batches = alikeBatches(batch.map(unitOf), batchTokens(policy, tokenBudget));
  return addGradients(
    policy,
    batches,
    { recompute },
    (micro, pass) => {
      const pairs = micro.members.map((member) => batch[member]!);
      const logprobs = gather(micro, pass.logprobs);
      const { loss, dChosen, dRejected } = lossOf(withLogprobs(pairs, logprobs), { pairs: batch.length });
      const derivatives = pairs.map((_, i) => joined(dChosen[i]!, dRejected[i]!));
      if (note) {
        micro.members.forEach((member, i) => {
          const advantage = pushOf(derivatives[i]!, batch.length);
          note(member, pairs[i]!, { logprobs: logprobs[i]!, advantage });
        });
      }
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
    alikeBatches(all.map(unitOf), batchTokens(policy, tokenBudget)),
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
