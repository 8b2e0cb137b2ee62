/** Every learner as a small run on the table policy, for tests that stop, kill, damage and resume it. */
import { preferenceLossNames } from "../algorithm/loss/preference.ts";
import type { Message } from "../conversation/message.ts";
import type { Trajectory } from "../conversation/trajectory.ts";
import { NeuralRewardTrainer } from "../preference/neural-reward-trainer.ts";
import { trainPreference } from "../preference/train-preference.ts";
import type { RunChoice } from "../run/options.ts";
import type { RunSummary } from "../run/summary.ts";
import { encodeConversation } from "../supervised/example.ts";
import { trainSupervised } from "../supervised/train-supervised.ts";
import { ValueFunction } from "../supervised/value-function.ts";
import { autoAdjust } from "../training/auto-adjust.ts";
import { train } from "../training/train.ts";
import type { TablePolicy } from "./table-policy.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "./table-training.ts";

/** What a test may change of a run: its place, its onlookers, and how long it is. */
export interface TableRun extends RunChoice {
  epochs?: number;
  checkpoint?: { every?: number; keep?: number };
}

export interface TableLearner {
  policy: TablePolicy;
  /** Steps to be done with the default epochs. */
  steps: number;
  run(options: TableRun): Promise<RunSummary<object, unknown>>;
}

export const fitLearners = ["sft", ...preferenceLossNames, "reward-model", "value-function"] as const;
export const tableLearners = ["rl", ...fitLearners] as const;

const replies = ["sorry please help", "sorry yes", "please ok", "thanks", "yes please", "well no", "no"];
const talk = (reply: string): Message[] => [
  { role: "user", content: "order late" },
  { role: "assistant", content: reply },
];
export const tableChats = replies.map((reply) => ({ messages: talk(reply) }));
export const tablePairs = replies.map((reply) => ({ prompt: "order late", chosen: reply, rejected: "really no" }));
const tableCompletions = replies.map((completion, i) => ({
  prompt: i % 2 > 0 ? "order late" : "help card",
  completion,
  label: i < 5,
}));

/** The table's value head sees the last token alone, which ends every conversation: of pairs it would learn nothing. */
const labelled = tableChats.map((chat, i) => ({ ...chat, good: i % 3 > 0 }));

const epochs = 4;
const fitSettings = {
  batchSize: 2,
  learningRate: 0.05,
  checkpoint: { every: 2, keep: 2 },
  trajectories: { every: 5 },
  seed: 3,
} as const;
const evaluated = { ...fitSettings, evaluateEvery: 3 };
const fitSteps = Math.ceil(replies.length / fitSettings.batchSize) * epochs;

export function tableLearner(kind: (typeof tableLearners)[number]): TableLearner {
  const { agent, policy } = tableAgent({ spread: 1 });
  const heldOut = { chats: tableChats.slice(0, 2), pairs: tablePairs.slice(0, 2) };
  const fitted = (run: (options: TableRun) => Promise<{ run: RunSummary<object, unknown> }>): TableLearner => ({
    policy,
    steps: fitSteps,
    run: async (options) => (await run({ epochs, ...options })).run,
  });
  switch (kind) {
    case "rl":
      return {
        policy,
        steps: 24,
        run: async ({ epochs: _, checkpoint, callbacks, ...options }) => {
          const { run } = await train({
            agent,
            environment: tableEnvironment(),
            reward: new FunctionReward(politeShare),
            heldOut: [0, 1].map((i) => ({ id: `held-${i}`, userResponses: ["help card", "order no"] })),
            steps: 24,
            learningRate: 0.2,
            groupsPerStep: 2,
            groupSize: 4,
            algorithm: "vapo",
            valueWarmupSteps: 5,
            checkpoint: { every: 2, keep: 2, ...checkpoint },
            evaluation: { every: 6, samples: 2 },
            trajectories: { every: 5 },
            callbacks: [autoAdjust(), ...[callbacks ?? []].flat()],
            ...options,
          });
          return run;
        },
      };
    case "sft":
      return fitted((options) =>
        trainSupervised({ agent, examples: tableChats, heldOut: heldOut.chats, ...evaluated, ...options }),
      );
    case "kto":
      return fitted((options) =>
        trainPreference({
          policy,
          loss: kind,
          completions: tableCompletions,
          heldOut: tableCompletions.slice(0, 3),
          ...evaluated,
          ...options,
        }),
      );
    case "dpo":
    case "robust":
    case "hinge":
    case "ipo":
    case "orpo":
      return fitted((options) =>
        trainPreference({
          policy,
          loss: kind,
          ...(kind === "robust" && { labelSmoothing: 0.1 }),
          pairs: tablePairs,
          heldOut: heldOut.pairs,
          ...evaluated,
          ...options,
        }),
      );
    case "reward-model":
      return fitted((options) =>
        new NeuralRewardTrainer({
          policy,
          examples: labelled,
          heldOut: labelled.slice(0, 2),
          ...evaluated,
          ...options,
        }).train(),
      );
    case "value-function":
      return fitted((options) => {
        const conversations = tableChats.map(({ messages }, i) => recorded(policy, messages, i));
        const returns = conversations.map(({ chains }, i) => chains[0]!.learn.filter(Boolean).map(() => i % 3));
        return new ValueFunction({ agent }).fit(conversations, returns, { ...fitSettings, ...options });
      });
  }
}

/** A conversation as if the policy had sampled it. */
function recorded({ tokenizer }: TablePolicy, messages: Message[], i: number): Trajectory {
  const { tokens, learn } = encodeConversation(tokenizer, { messages });
  const turn = Int32Array.from(learn, (own) => (own ? 1 : -1));
  return {
    id: `t${i}`,
    scenarioId: "s",
    turns: messages,
    chains: [{ tokens, learn, turn, logprobs: new Float32Array(tokens.length) }],
    reward: { score: i % 3, breakdown: {} },
    ended: "done",
    temperature: 1,
    stub: false,
    metadata: {},
  };
}
