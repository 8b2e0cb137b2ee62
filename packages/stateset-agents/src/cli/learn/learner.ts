/** What the four commands that learn from data differ in. */
import type { z } from "zod";
import type { Agent } from "../../agent/agent.ts";
import type { PreferenceLossName } from "../../algorithm/loss/preference.ts";
import { learnCount } from "../../conversation/learn-tokens.ts";
import type { TreeChain } from "../../conversation/token-tree.ts";
import type { Policy } from "../../policy/policy.ts";
import { encodeCompletions, type LabelledCompletion } from "../../preference/labelled.ts";
import { refuseOthers, shapeFor } from "../../preference/losses.ts";
import {
  NeuralRewardTrainer,
  type NeuralRewardTrainerOptions,
  rewardModelShape,
} from "../../preference/neural-reward-trainer.ts";
import { encodePairs, type PairChains, type PreferencePair } from "../../preference/pair.ts";
import { encodeRewardExample, type RewardExample, unitChains } from "../../preference/reward-data.ts";
import { type PreferenceOptions, preferenceShape, trainPreference } from "../../preference/train-preference.ts";
import type { SectionName } from "../../project/sections.ts";
import type { LearnerKind } from "../../run/config.ts";
import type { RunChoice } from "../../run/options.ts";
import { requireRejected } from "../../supervised/best-of-n.ts";
import { encodeExamples, type SupervisedExample } from "../../supervised/example.ts";
import type { FitResult } from "../../supervised/fit.ts";
import { fitShape } from "../../supervised/fit-options.ts";
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
  /** One word for them, in the plural. */
  what: string;
  /** Tokens to learn from. */
  tokens: number;
  dropped: number;
  truncated: number;
}

export interface Learner<E = unknown> {
  command: Exclude<RunCommand, "train" | "demo">;
  section: SectionName;
  /** The runs it can take up, and what the library calls it. */
  kinds: readonly LearnerKind[];
  where: string;
  /** The settings that learning reads. */
  shape(settings: Settings): z.ZodRawShape;
  /** Refuses settings that do not go together. `given` is what was written, without defaults. */
  check?(settings: Settings, given: Settings): void;
  /** Compares with the weights it starts from. */
  refers?(settings: Settings): boolean;
  encode(policy: Policy, examples: readonly E[], settings: Settings): Encoded;
  train(agent: Agent, data: Data<E>, options: Settings & RunChoice): Promise<FitResult<object>>;
}

export const sft: Learner<SupervisedExample> = {
  command: "sft",
  section: "sft",
  kinds: ["sft"],
  where: "trainSupervised()",
  shape: () => fitShape,
  encode({ tokenizer, model }, examples) {
    const { chains, dropped, truncated } = encodeExamples(tokenizer, examples, model.contextLength);
    const units = chains.map((chain) => [chain]);
    return { units, what: "examples", tokens: learntIn(chains), dropped, truncated };
  },
  train: (agent, data, options) => trainSupervised({ agent, ...data, ...options } as SupervisedOptions),
};

/** Its examples are what an agent itself said best. */
export const bestOfN: Learner<SupervisedExample> = {
  ...sft,
  command: "best-of-n",
  section: "bestOfN",
  where: "best-of-n",
  check: (settings) => requireRejected(settings as { n: number; keep: number }, "best-of-n"),
};

export const dpo: Learner<PreferencePair | LabelledCompletion> = {
  command: "dpo",
  section: "dpo",
  // A run is called after its loss.
  kinds: preferenceShape.loss.unwrap().options,
  where: "trainPreference()",
  shape: ({ loss }) => shapeFor(loss as PreferenceLossName),
  check({ loss, labelSmoothing }, given) {
    refuseOthers(loss as PreferenceLossName, given, labelSmoothing as number);
  },
  refers: ({ loss }) => loss !== "orpo",
  encode({ tokenizer, model: { contextLength } }, examples, settings) {
    const seed = settings.seed as number;
    const units = (pairs: readonly PairChains[]) => pairs.map(({ chosen, rejected }) => [...chosen, ...rejected]);
    if (areLabelled(examples)) {
      const { chains, dropped } = encodeCompletions(tokenizer, examples, { contextLength, seed, what: "completions" });
      // The completion of another is only scored.
      const tokens = learntIn(chains.flatMap(({ chosen }) => chosen));
      return { units: units(chains), what: "completions", tokens, dropped, truncated: 0 };
    }
    const { pairs, dropped } = encodePairs(tokenizer, examples as PreferencePair[], contextLength);
    return { units: units(pairs), what: "pairs", tokens: learntIn(units(pairs).flat()), dropped, truncated: 0 };
  },
  train(agent, { examples, heldOut }, options) {
    const data = areLabelled(examples) ? { completions: examples } : { pairs: examples };
    return trainPreference({ agent, ...data, heldOut, ...options } as PreferenceOptions);
  },
};

/** KTO reads nothing else, and pairs as two of them each. */
function areLabelled(examples: readonly (PreferencePair | LabelledCompletion)[]): examples is LabelledCompletion[] {
  return examples.every((one) => "completion" in one);
}

function learntIn(chains: readonly TreeChain[]): number {
  return chains.reduce((sum, chain) => sum + learnCount(chain), 0);
}

export const rewardModel: Learner<RewardExample> = {
  command: "reward-model",
  section: "rewardModel",
  kinds: ["reward-model"],
  where: "NeuralRewardTrainer",
  shape: () => rewardModelShape,
  encode({ tokenizer, model }, examples, { maxTokens }) {
    const most = Math.min(Number(maxTokens ?? model.contextLength), model.contextLength);
    const encoded = examples.map((one, i) => encodeRewardExample(tokenizer, one, most, `examples[${i}]`));
    const units = encoded.map(unitChains);
    // It learns from its score of the whole.
    const tokens = units.flat().reduce((sum, chain) => sum + chain.tokens.length, 0);
    return { units, what: "examples", tokens, dropped: 0, truncated: 0 };
  },
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
