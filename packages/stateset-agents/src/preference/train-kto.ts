/**
 * KTO: learning from single completions with a label. Each prompt is also scored with the completion of another, without learning from
 * that: the mean is the baseline z that a completion is compared with (algorithm/loss/kto.ts).
 */
import { type KtoLoss, klBaseline, ktoLoss, type LabelledSide } from "../algorithm/loss/kto.ts";
import { rewardOf } from "../algorithm/loss/preference.ts";
import { describeList } from "../describe.ts";
import { alikeBatches, gather, scatter } from "../learning/micro-batch.ts";
import { batchTokens, type PassSettings } from "../learning/optimiser.ts";
import { addGradients, scorePasses } from "../learning/passes.ts";
import type { Policy } from "../policy/policy.ts";
import { exampleRecords, pushOf, type SeenNumbers } from "../run/example-records.ts";
import { type FitResult, fit } from "../supervised/fit.ts";
import { completionExample, encodeCompletions, type LabelledCompletion } from "./labelled.ts";
import { fixedBy, type PreferenceRun } from "./losses.ts";
import { type PreferenceInput, sideTokens } from "./pair.ts";
import { ReferenceScores, type ScoredPair, splitSides, unitOf } from "./reference-scores.ts";

export interface KtoEvaluation {
  loss: number;
  /** Share of completions on the right side of z: desirable ones above, undesirable ones below; one at z counts half. */
  accuracy: number;
  /** Mean of β·r over the desirable completions minus that over the undesirable ones; 0 where there are none of one kind. */
  margin: number;
  /** z, the estimate of the KL to the reference. In nats a completion. */
  kl: number;
  completions: number;
}

export interface KtoTrainingResult extends FitResult<KtoEvaluation> {
  completions: number;
  dropped: number;
  /** Completions that spell control tokens: they are learnt as plain text. */
  spelt: number;
}

type AnyCompletion = LabelledCompletion | PreferenceInput;

/** A completion (`chosen`) and its prompt with the completion of another (`rejected`), as the reference scored them. */
interface Scored extends ScoredPair {
  desirable: boolean;
}

export async function trainKto(
  { settings, ...run }: PreferenceRun,
  { what, items }: { what: string; items: readonly AnyCompletion[] },
  heldOut: readonly AnyCompletion[] | undefined,
): Promise<KtoTrainingResult> {
  const { policy } = run;
  const { tokenBudget, reference, seed } = settings;
  const { contextLength } = policy.model;
  const encoded = encodeCompletions(policy.tokenizer, items, { contextLength, seed, what });
  const test = heldOut && encodeCompletions(policy.tokenizer, heldOut, { contextLength, seed, what: "heldOut" });
  const scores = new ReferenceScores({
    policy,
    of: reference,
    tokenBudget,
    pairs: encoded.chains,
    heldOut: test?.chains,
  });
  const lossOf = ktoLoss(settings);
  const label = (pairs: readonly ScoredPair[], labels: readonly boolean[]) =>
    pairs.map((pair, i): Scored => ({ ...pair, desirable: labels[i]! }));

  const result = await fit<KtoEvaluation>({
    ...run,
    learner: "kto",
    settings,
    data: { [what]: describeList(items), ...(heldOut && { heldOut: describeList(heldOut) }) },
    fixed: fixedBy(reference),
    count: encoded.chains.length,
    cut: encoded.dropped > 0 ? cutText(encoded.dropped) : undefined,
    parts: { scores },
    prepare: (signal) => scores.prepare(signal),
    record: (batch, step, seen) =>
      exampleRecords(
        step,
        batch.map((i) => completionExample(encoded.chains[i]!, encoded.sources[i]!, seen.get(i))),
      ),
    learn: (batch, signal, seen) => {
      const labels = batch.map((i) => encoded.labels[i]!);
      const note = seen && ((member: number, numbers: SeenNumbers) => void seen.set(batch[member]!, numbers));
      return learn(policy, label(scores.pairsOf(batch), labels), lossOf, settings, { signal, note });
    },
    tokens: (batch) => batch.reduce((sum, i) => sum + sideTokens(encoded.chains[i]!.chosen), 0),
    evaluate: test && ((signal) => evaluate(policy, label(scores.heldOut, test.labels), lossOf, tokenBudget, signal)),
  });
  return { ...result, completions: encoded.chains.length, dropped: encoded.dropped, spelt: encoded.spelt };
}

function cutText(dropped: number): string {
  return `${dropped} completions were left out: they do not fit the model's context, or the assistant says nothing in them.`;
}

async function learn(
  policy: Policy,
  batch: readonly Scored[],
  lossOf: KtoLoss,
  { tokenBudget, recompute }: PassSettings,
  {
    signal,
    note,
  }: { signal: AbortSignal | undefined; note: ((member: number, numbers: SeenNumbers) => void) | undefined },
): Promise<number> {
  const z = await baselineOf(policy, batch, tokenBudget, signal);
  const units = batch.map(({ chosen }) => ({ chains: chosen }));
  return addGradients(
    policy,
    alikeBatches(units, batchTokens(policy, tokenBudget)),
    { recompute },
    (micro, pass) => {
      const logprobs = gather(micro, pass.logprobs);
      const sides = micro.members.map((member, i): LabelledSide => {
        const { refChosen, desirable } = batch[member]!;
        return { logprobs: logprobs[i]!, ref: refChosen, desirable };
      });
      const { loss, dLogprobs } = lossOf(sides, { completions: batch.length }, z);
      if (note) {
        micro.members.forEach((member, i) => {
          const advantage = pushOf(dLogprobs[i]!, batch.length);
          note(member, { logprobs: logprobs[i]!, reference: sides[i]!.ref, advantage });
        });
      }
      return { loss, derivatives: { logprobs: scatter(micro, dLogprobs) } };
    },
    signal,
  );
}

/** z of a batch, by the policy as it is. */
async function baselineOf(
  policy: Policy,
  batch: readonly Scored[],
  tokenBudget: number,
  signal: AbortSignal | undefined,
): Promise<number> {
  const others = batch.filter(({ rejected }) => rejected.length > 0);
  const units = others.map(({ rejected }) => ({ chains: rejected }));
  // In their own order: the sum must not depend on how they were packed.
  const sides = new Array<{ logprobs: Float32Array; ref: Float32Array }>(others.length);
  await scorePasses(
    policy,
    alikeBatches(units, batchTokens(policy, tokenBudget)),
    {},
    (micro, pass) => {
      const logprobs = gather(micro, pass.logprobs);
      micro.members.forEach((member, i) => {
        sides[member] = { logprobs: logprobs[i]!, ref: others[member]!.refRejected };
      });
    },
    signal,
  );
  return klBaseline(sides);
}

async function evaluate(
  policy: Policy,
  all: readonly Scored[],
  lossOf: KtoLoss,
  tokenBudget: number,
  signal?: AbortSignal,
): Promise<KtoEvaluation> {
  const own = new Array<LabelledSide>(all.length);
  const others: { logprobs: Float32Array; ref: Float32Array }[] = [];
  await scorePasses(
    policy,
    alikeBatches(all.map(unitOf), batchTokens(policy, tokenBudget)),
    {},
    (micro, pass) => {
      const logprobs = gather(micro, pass.logprobs);
      micro.members.forEach((member, i) => {
        const pair = all[member]!;
        const [completion, mismatched] = splitSides(pair, logprobs[i]!);
        own[member] = { logprobs: completion, ref: pair.refChosen, desirable: pair.desirable };
        if (mismatched.length > 0) others.push({ logprobs: mismatched, ref: pair.refRejected });
      });
    },
    signal,
  );
  const kl = klBaseline(others);
  const { loss, metrics } = lossOf(own, { completions: all.length }, kl);
  const right = own.map((side) => {
    const above = Math.sign(rewardOf(side) - kl) * (side.desirable ? 1 : -1);
    return (above + 1) / 2;
  });
  const { chosenReward: good, rejectedReward: bad } = metrics;
  const margin = good && bad ? good.sum / good.count - bad.sum / bad.count : 0;
  return { loss, accuracy: right.reduce((a, b) => a + b, 0) / all.length, margin, kl, completions: all.length };
}
