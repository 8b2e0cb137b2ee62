/** What the four commands that learn from data differ in. */
import type { Agent } from "../../agent/agent.ts";
import { learnCount } from "../../conversation/learn-tokens.ts";
import type { TreeChain } from "../../conversation/token-tree.ts";
import type { Policy } from "../../policy/policy.ts";
import { NeuralRewardTrainer, type NeuralRewardTrainerOptions } from "../../preference/neural-reward-trainer.ts";
import type { PreferencePair } from "../../preference/pair.ts";
import { encodePairs } from "../../preference/pair.ts";
import { encodeRewardExample, type RewardExample, unitChains } from "../../preference/reward-data.ts";
import { type PreferenceOptions, preferenceShape, trainPreference } from "../../preference/train-preference.ts";
import type { SectionName } from "../../project/sections.ts";
import type { LearnerKind } from "../../run/config.ts";
import type { RunChoice } from "../../run/options.ts";
import { encodeExamples, type SupervisedExample } from "../../supervised/example.ts";
import type { FitResult } from "../../supervised/fit.ts";
import { type SupervisedOptions, trainSupervised } from "../../supervised/train-supervised.ts";
import type { RunCommand } from "../run/invocation.ts";
import type { Settings } from "../settings.ts";

/** What is learnt from and measured on. */
export interface Data<E> {
  examples: readonly E[];
  heldOut?: readonly E[];
}

/** Examples as tokens, for the plan. */
export interface Encoded {
  /** The chains of each example that can be learnt from. */
  units: TreeChain[][];
  dropped: number;
  truncated: number;
}

export interface Learner<E = unknown> {
  command: Exclude<RunCommand, "train">;
  section: SectionName;
  /** The runs it can take up, and what the library calls it. */
  kinds: readonly LearnerKind[];
  where: string;
  /** One word for an example, in the plural. */
  what: string;
  encode(policy: Policy, examples: readonly E[], settings: Settings): Encoded;
  learnt(chain: TreeChain): number;
  train(agent: Agent, data: Data<E>, options: Settings & RunChoice): Promise<FitResult<object>>;
}

export const sft: Learner<SupervisedExample> = {
  command: "sft",
  section: "sft",
  kinds: ["sft"],
  where: "trainSupervised()",
  what: "examples",
  encode({ tokenizer, model }, examples) {
    const { chains, dropped, truncated } = encodeExamples(tokenizer, examples, model.contextLength);
    return { units: chains.map((chain) => [chain]), dropped, truncated };
  },
  learnt: learnCount,
  train: (agent, data, options) => trainSupervised({ agent, ...data, ...options } as SupervisedOptions),
};

/** Its examples are what an agent itself said best. */
export const bestOfN: Learner<SupervisedExample> = { ...sft, command: "best-of-n", section: "bestOfN" };

export const dpo: Learner<PreferencePair> = {
  command: "dpo",
  section: "dpo",
  // A run is called after its loss.
  kinds: preferenceShape.loss.unwrap().options,
  where: "trainPreference()",
  what: "pairs",
  encode({ tokenizer, model }, examples) {
    const { pairs, dropped } = encodePairs(tokenizer, examples, model.contextLength);
    return { units: pairs.map(({ chosen, rejected }) => [...chosen, ...rejected]), dropped, truncated: 0 };
  },
  learnt: learnCount,
  train: (agent, { examples: pairs, heldOut }, options) =>
    trainPreference({ agent, pairs, heldOut, ...options } as PreferenceOptions),
};

export const rewardModel: Learner<RewardExample> = {
  command: "reward-model",
  section: "rewardModel",
  kinds: ["reward-model"],
  where: "NeuralRewardTrainer",
  what: "examples",
  encode({ tokenizer, model }, examples, { maxTokens }) {
    const most = Math.min(Number(maxTokens ?? model.contextLength), model.contextLength);
    const encoded = examples.map((one, i) => encodeRewardExample(tokenizer, one, most, `examples[${i}]`));
    return { units: encoded.map(unitChains), dropped: 0, truncated: 0 };
  },
  // It learns from its score of the whole.
  learnt: ({ tokens }) => tokens.length,
  async train(agent, data, options) {
    await agent.initialize();
    const trainer = new NeuralRewardTrainer({
      policy: agent.policy,
      ...data,
      ...options,
    } as unknown as NeuralRewardTrainerOptions);
    return trainer.train();
  },
};
