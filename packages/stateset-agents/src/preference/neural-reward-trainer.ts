/**
 * A reward model: Bradley–Terry (1952) on the score a value head gives at the last token of a conversation,
 * −log σ(r_better − r_worse − margin), trained together with the model under it. Pairs and good/bad labels may be mixed.
 */
import { z } from "zod";
import { bradleyTerryLoss, calibration, type ScoredPair } from "../algorithm/loss/bradley-terry.ts";
import { describeList } from "../describe.ts";
import { StatesetError } from "../error.ts";
import { alikeBatches } from "../learning/micro-batch.ts";
import { batchTokens, type PassSettings } from "../learning/optimiser.ts";
import { addGradients } from "../learning/passes.ts";
import { openPolicy } from "../policy/open-policy.ts";
import type { LoraOptions, Policy } from "../policy/policy.ts";
import { exampleRecords } from "../run/example-records.ts";
import { runShape } from "../run/options.ts";
import { type FitResult, fit } from "../supervised/fit.ts";
import {
  agentOrPolicyShape,
  type FitOptions,
  fitShape,
  readFitOptions,
  splitFitOptions,
} from "../supervised/fit-options.ts";
import { NeuralReward, type RewardModelInfo, scoreChains } from "./neural-reward.ts";
import { encodeRewardExample, type RewardExample, type RewardUnit, rewardExamples, unitChains } from "./reward-data.ts";

export interface RewardModelEvaluation {
  /** Share of examples it gets right: the better side of a pair, or the label; ties count half. */
  accuracy: number;
  /** Expected calibration error: how far its stated probabilities are from how often it is right (ten bins). */
  ece: number;
  /** Mean squared error of its stated probabilities. */
  brier: number;
  /** Mean −log σ(gap) in nats; ln 2 for a coin. */
  loss: number;
  count: number;
}

export interface NeuralRewardTrainerOptions extends FitOptions {
  /** A folder or hub id. Default: the bundled starter model. */
  model?: string;
  lora?: LoraOptions;
  threads?: number;
  /** Instead of `model`: a policy that is already open. It becomes the reward model's own. */
  policy?: Policy;
  /** Preference pairs, or conversations labelled good or bad. */
  examples: readonly RewardExample[];
  /** Examples that accuracy and calibration are reported on. Keep whole conversations on one side of the split. */
  heldOut?: readonly RewardExample[];
  /** Longest conversation read, in tokens; of longer ones the end. Default: the model's context. */
  maxTokens?: number;
  /** Put before conversations of a run, whose turns do not hold the agent's system prompt. */
  systemPrompt?: string;
}

/** The settings of NeuralRewardTrainer, without those of its run. */
export const rewardModelShape = {
  ...fitShape,
  maxTokens: z.int().min(2).optional(),
  systemPrompt: z.string().optional(),
} as const;

const { policy: policySchema } = agentOrPolicyShape;
const schema = z.strictObject({
  ...rewardModelShape,
  ...runShape,
  policy: policySchema,
  model: z.string().min(1).optional(),
  lora: z.custom<LoraOptions>().optional(),
  threads: z.int().min(1).optional(),
  examples: z.array(z.custom<RewardExample>()).min(1),
  heldOut: z.array(z.custom<RewardExample>()).min(1).optional(),
});

export interface NeuralRewardResult extends FitResult<RewardModelEvaluation> {
  /** Of a run that was interrupted its scale is not measured yet: mean 0, deviation 1. */
  reward: NeuralReward;
  /** On the held-out examples, after training. */
  heldOut: RewardModelEvaluation | undefined;
}

/**
 * @example
 * const { reward, heldOut } = await new NeuralRewardTrainer({ examples: pairs, heldOut: others }).train();
 * console.log(heldOut?.accuracy, heldOut?.ece);
 * await reward.save("reward-model");
 */
export class NeuralRewardTrainer {
  readonly #o: z.output<typeof schema>;

  constructor(options: NeuralRewardTrainerOptions) {
    this.#o = readFitOptions(schema, options, ["reward-model"], "NeuralRewardTrainer");
    if (options.policy && (options.model || options.lora || options.threads)) {
      throw new StatesetError("INVALID_OPTION", "NeuralRewardTrainer has a policy as well as model, lora or threads.", {
        hint: "Give the open policy alone, or what to open.",
      });
    }
  }

  async train(): Promise<NeuralRewardResult> {
    const { model, lora, threads, policy: given } = this.#o;
    if (given) return this.#trainOn(given);
    const policy = await openPolicy({ ...(model && { model }), ...(lora && { lora }), ...(threads && { threads }) });
    try {
      return await this.#trainOn(policy);
    } catch (error) {
      await policy.close();
      throw error;
    }
  }

  async #trainOn(policy: Policy): Promise<NeuralRewardResult> {
    const { examples, heldOut, systemPrompt } = this.#o;
    await policy.addValueHead();
    const { contextLength } = policy.model;
    const maxTokens = Math.min(this.#o.maxTokens ?? contextLength, contextLength);
    const { settings, on } = splitFitOptions({ ...this.#o, maxTokens }, rewardModelShape, policy);
    const encode = (list: readonly RewardExample[], name: string) =>
      list.map((example, i) => encodeRewardExample(policy.tokenizer, example, maxTokens, `${name}[${i}]`));
    const units = encode(examples, "examples");
    const test = heldOut && encode(heldOut, "heldOut");
    const unitsOf = (batch: readonly number[]) => batch.map((i) => units[i]!);
    const info: RewardModelInfo = {
      maxTokens,
      mean: 0,
      deviation: 1,
      ...(systemPrompt !== undefined && { systemPrompt }),
    };
    let reward = new NeuralReward(policy, info);
    const result = await fit<RewardModelEvaluation>({
      learner: "reward-model",
      policy,
      on,
      settings,
      defaults: { ...z.object(rewardModelShape).parse({}), maxTokens: contextLength },
      data: { examples: describeList(examples), ...(heldOut && { heldOut: describeList(heldOut) }) },
      count: units.length,
      learn: (batch, signal, seen) =>
        learn(policy, unitsOf(batch), settings, {
          signal,
          note: seen && ((member, scores) => void seen.set(batch[member]!, { scores })),
        }),
      record: (batch, step, seen) =>
        exampleRecords(
          step,
          batch.flatMap((i) => rewardExamples(units[i]!, examples[i]!, i, seen.get(i)?.scores)),
        ),
      tokens: (batch) =>
        unitsOf(batch)
          .flatMap(unitChains)
          .reduce((sum, { tokens }) => sum + tokens.length, 0),
      evaluate: test && ((signal) => evaluateUnits(policy, test, settings.tokenBudget, signal)),
      async finish(signal) {
        reward = new NeuralReward(policy, {
          ...info,
          ...(await spreadOf(policy, units, settings.tokenBudget, signal)),
        });
      },
      save: (dir) => reward.save(dir),
    });
    return { ...result, reward, heldOut: test && result.evaluations.at(-1) };
  }
}

async function learn(
  policy: Policy,
  batch: readonly RewardUnit[],
  { tokenBudget, recompute }: PassSettings,
  {
    signal,
    note,
  }: {
    signal: AbortSignal | undefined;
    note: ((member: number, scores: { better: number; worse: number }) => void) | undefined;
  },
): Promise<number> {
  const batches = alikeBatches(
    batch.map((unit) => ({ chains: unitChains(unit) })),
    batchTokens(policy, tokenBudget),
  );
  return addGradients(
    policy,
    batches,
    { values: true, recompute },
    (micro, pass) => {
      const { tree, positions } = micro.merged;
      let chain = 0;
      const place = (side: unknown) => (side === undefined ? -1 : positions[chain++]!.at(-1)!);
      const units = micro.members.map((member) => batch[member]!);
      const places = units.map(({ better, worse }) => ({ better: place(better), worse: place(worse) }));
      const at = (index: number) => (index < 0 ? 0 : pass.values![index]!);
      if (note) {
        places.forEach(({ better, worse }, i) => {
          note(micro.members[i]!, { better: at(better), worse: at(worse) });
        });
      }
      const { loss, dChosen, dRejected } = bradleyTerryLoss(
        units.map(({ margin }, i) => ({ chosen: at(places[i]!.better), rejected: at(places[i]!.worse), margin })),
        { pairs: batch.length },
      );
      const values = new Float32Array(tree.tokens.length);
      places.forEach(({ better, worse }, i) => {
        if (better >= 0) values[better]! += dChosen[i]!;
        if (worse >= 0) values[worse]! += dRejected[i]!;
      });
      return { loss, derivatives: { values } };
    },
    signal,
  );
}

async function evaluateUnits(
  policy: Policy,
  units: readonly RewardUnit[],
  tokenBudget: number,
  signal: AbortSignal | undefined,
): Promise<RewardModelEvaluation> {
  const scores = await scoreChains(policy, units.flatMap(unitChains), tokenBudget, signal);
  let at = 0;
  const pairs = units.map(
    ({ better, worse, margin }): ScoredPair => ({
      chosen: better ? scores[at++]! : 0,
      rejected: worse ? scores[at++]! : 0,
      margin,
    }),
  );
  const { loss } = bradleyTerryLoss(pairs, { pairs: pairs.length });
  const { expectedError, brier } = calibration(pairs);
  const right = pairs.map(({ chosen, rejected }) => (chosen > rejected ? 1 : chosen === rejected ? 0.5 : 0));
  const accuracy = right.reduce((sum: number, value) => sum + value, 0) / right.length;
  return { accuracy, ece: expectedError, brier, loss, count: pairs.length };
}

/** Mean and deviation of the raw scores, so that rewards can be given on a known scale. */
async function spreadOf(
  policy: Policy,
  units: readonly RewardUnit[],
  tokenBudget: number,
  signal: AbortSignal | undefined,
) {
  const scores = await scoreChains(policy, units.flatMap(unitChains), tokenBudget, signal);
  const mean = scores.reduce((sum, score) => sum + score, 0) / scores.length;
  const variance = scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / scores.length;
  return { mean, deviation: Math.sqrt(variance) || 1 };
}
