/**
 * Learning from preference pairs without a reward model: DPO (Rafailov et al. 2023) and IPO (Azar et al. 2023).
 * The two sides of a pair share their prompt in the token tree; the reference is scored once, before the first step.
 */
import { z } from "zod";
import { dpoLoss } from "../algorithm/loss/dpo.ts";
import { ipoLoss } from "../algorithm/loss/ipo.ts";
import type { PreferenceLoss } from "../algorithm/loss/preference.ts";
import { alikeBatches, gather, scatter } from "../learning/micro-batch.ts";
import type { PassSettings } from "../learning/optimiser.ts";
import type { Unit } from "../learning/pack.ts";
import { addGradients, scorePasses } from "../learning/passes.ts";
import { parseOptions } from "../options.ts";
import type { Policy, Reference } from "../policy/policy.ts";
import { learnCount } from "../supervised/example.ts";
import {
  type AgentOrPolicy,
  agentOrPolicyShape,
  callbacksShape,
  type FitCallbacks,
  type FitOptions,
  type FitResult,
  fit,
  fitShape,
  policyOf,
} from "../supervised/fit.ts";
import { encodePairs, type PairChains, type PreferenceInput } from "./pair.ts";

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
  FitOptions &
  FitCallbacks<PreferenceEvaluation> & {
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

const schema = z.strictObject({
  ...fitShape,
  ...agentOrPolicyShape,
  pairs: z.array(z.custom<AnyPair>()).min(1),
  heldOut: z.array(z.custom<AnyPair>()).min(1).optional(),
  loss: z.enum(["dpo", "ipo"]).default("dpo"),
  beta: z.number().positive().default(0.1),
  reference: z.enum(["start", "base"]).default("start"),
  ...callbacksShape<PreferenceEvaluation>(),
});

/** A pair with the reference's log-probs of both sides. [learn tokens] */
interface ScoredPair extends PairChains {
  refChosen: Float32Array;
  refRejected: Float32Array;
}

/**
 * @example
 * await trainPreference({ agent, pairs: await loadPreferencePairs("pairs.jsonl"), loss: "dpo", beta: 0.1 });
 */
export async function trainPreference(options: PreferenceOptions): Promise<PreferenceResult> {
  const {
    agent,
    policy: bare,
    pairs,
    heldOut,
    signal,
    onStep,
    onEvaluation,
    ...settings
  } = parseOptions(schema, options, "trainPreference()");
  const policy = await policyOf({ agent, policy: bare }, "trainPreference()");
  const { contextLength } = policy.model;
  const reference = await policy.reference(settings.reference === "base" ? "base" : "present");
  const encoded = encodePairs(policy.tokenizer, pairs, contextLength);
  const scored = await scorePairs(reference, encoded.pairs, settings.tokenBudget);
  const lossOf = settings.loss === "dpo" ? dpoLoss(settings) : ipoLoss(settings);
  const test =
    heldOut &&
    (await scorePairs(reference, encodePairs(policy.tokenizer, heldOut, contextLength).pairs, settings.tokenBudget));

  await reference.close();

  const result = await fit<ScoredPair, PreferenceEvaluation>(
    policy,
    scored,
    settings,
    (batch) => learn(policy, batch, lossOf, settings),
    { signal, onStep, onEvaluation, evaluate: test && (() => evaluate(policy, test, lossOf, settings.tokenBudget)) },
  );
  return { ...result, pairs: scored.length, dropped: encoded.dropped, spelt: encoded.spelt };
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
): Promise<number> {
  const batches = alikeBatches(batch.map(unitOf), tokenBudget);
  return addGradients(policy, batches, { recompute }, (micro, pass) => {
    const pairs = micro.members.map((member) => batch[member]!);
    const { loss, dChosen, dRejected } = lossOf(withLogprobs(pairs, gather(micro, pass.logprobs)), {
      pairs: batch.length,
    });
    const derivatives = pairs.map((_, i) => joined(dChosen[i]!, dRejected[i]!));
    return { loss, derivatives: { logprobs: scatter(micro, derivatives) } };
  });
}

async function evaluate(
  policy: Policy,
  all: readonly ScoredPair[],
  lossOf: PreferenceLoss,
  tokenBudget: number,
): Promise<PreferenceEvaluation> {
  const sums = { loss: 0, accuracy: 0, margin: 0, likelierChosen: 0 };
  await scorePasses(policy, alikeBatches(all.map(unitOf), tokenBudget), {}, (micro, pass) => {
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
  });
  return { ...sums, pairs: all.length };
}

async function scorePairs(reference: Reference, pairs: readonly PairChains[], tokenBudget: number) {
  const scored = new Array<ScoredPair>(pairs.length);
  for (const micro of alikeBatches(pairs.map(unitOf), tokenBudget)) {
    const logprobs = gather(micro, await reference.logprobs(micro.merged.tree));
    micro.members.forEach((member, i) => {
      const pair = pairs[member]!;
      const [refChosen, refRejected] = splitSides(pair, logprobs[i]!);
      scored[member] = { ...pair, refChosen, refRejected };
    });
  }
  return scored;
}

function unitOf({ chosen, rejected }: PairChains): Unit {
  return { chains: [chosen, rejected] };
}

/** A pair's numbers come one side after the other. */
function splitSides({ chosen }: PairChains, numbers: Float32Array): [Float32Array, Float32Array] {
  const at = learnCount(chosen);
  return [numbers.subarray(0, at), numbers.subarray(at)];
}

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
