/** One run: the shop's agent before and after training, by class of scenarios. */
import { type Evaluation, evaluate, type TrainingOptions, train } from "stateset-agents";
import { classes, type ScenarioClass, Shop, shopAgent, shopReward } from "./shop.ts";

/** 100 steps of GRPO, 4 × 8 at 3e-4, as train() does it, but for these. */
export const variants = {
  default: {},
  "no-recall": { recall: false },
  "no-recall+kl.1": { recall: false, kl: { coefficient: 0.1 } },
  "no-recall+lr3e-5": { recall: false, learningRate: 3e-5 },
  "lr1e-4": { learningRate: 1e-4 },
  "kl.02": { kl: { coefficient: 0.02 } },
} as const satisfies Record<string, TrainingOptions>;
export type VariantName = keyof typeof variants;

export interface ClassesJob {
  variant: VariantName;
  seed: number;
  steps: number;
}

export type ByClass = Record<ScenarioClass | "mean", number>;

export interface ClassesResult {
  /** On the held-out scenarios. */
  before: ByClass;
  after: ByClass;
  /** Mean reward of each class in training, by tenths of the run; null where it was not drawn. */
  training: Record<ScenarioClass, (number | null)[]>;
  conversations: number;
  recalled: number;
  warnings: string[];
}

export async function learnShop({ variant, seed, steps }: ClassesJob): Promise<ClassesResult> {
  const agent = shopAgent();
  const measure = async () =>
    meansOf(await evaluate({ agent, environment: new Shop({ heldOut: true }), reward: shopReward, samples: 8, seed }));
  const before = await measure();
  const seen: { tenth: number; topic: string; reward: number }[] = [];
  const { run } = await train({
    ...variants[variant],
    steps,
    seed,
    agent,
    environment: new Shop({ heldOut: false }),
    reward: shopReward,
    dir: false,
    callbacks: {
      onStepEnd({ step, groups }) {
        const tenth = Math.floor((10 * (step - 1)) / steps);
        for (const { scenarioId, trajectories } of groups) {
          for (const { reward } of trajectories) seen.push({ tenth, topic: topicOf(scenarioId), reward: reward.score });
        }
      },
    },
  });
  const after = await measure();
  await agent.close();
  const sum = (name: "conversations" | "recalledConversations") =>
    run.metrics.reduce((total, { [name]: count = 0 }) => total + count, 0);
  return {
    before,
    after,
    training: perClass((topic) =>
      Array.from({ length: 10 }, (_, tenth) =>
        average(seen.filter((one) => one.topic === topic && one.tenth === tenth).map(({ reward }) => reward)),
      ),
    ),
    conversations: sum("conversations"),
    recalled: sum("recalledConversations"),
    warnings: run.warnings.map(({ kind, message }) => `${kind}: ${message}`),
  };
}

function meansOf({ scenarios }: Evaluation): ByClass {
  const of = (topic: string) => scenarios.filter(({ id }) => topicOf(id) === topic).map(({ mean }) => mean);
  return { ...perClass((topic) => average(of(topic))!), mean: average(scenarios.map(({ mean }) => mean))! };
}

function perClass<T>(of: (topic: ScenarioClass) => T): Record<ScenarioClass, T> {
  return Object.fromEntries(classes.map((topic) => [topic, of(topic)])) as Record<ScenarioClass, T>;
}

const topicOf = (scenarioId: string) => scenarioId.split("-")[0]!;

function average(values: readonly number[]): number | null {
  return values.length === 0 ? null : Math.round((1000 * values.reduce((a, b) => a + b, 0)) / values.length) / 1000;
}
