/**
 * Two runs that are made to go wrong, each with and without autoAdjust:
 *   rate   a learning rate 20 times too high: the model falls apart;
 *   hack   a reward that can be gamed (it counts courteous words): the model chants.
 * What is plotted is the quality that training does not see: politeness, brevity and helpfulness on held-out conversations.
 *
 *   npx tsx benchmarks/collapse/main.ts [--steps 24] [--seed 1] [--only rate]
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import {
  CompositeReward,
  ConcisenessReward,
  customerService,
  evaluate,
  HelpfulnessReward,
  MultiTurnAgent,
  PolitenessReward,
  type RewardFunction,
  rewardFunction,
  type TrainingCallbacks,
  train,
} from "stateset-agents";
import { autoAdjust, watchHealth } from "stateset-agents/telemetry";
import { describeMachine } from "../machine.ts";
import { plot } from "./plot.ts";

export interface Curve {
  case: "rate" | "hack";
  autoAdjust: boolean;
  /** Every step. */
  reward: number[];
  entropy: number[];
  /** On held-out conversations, every `evaluateEvery` steps from step 0. */
  quality: { step: number; mean: number; low: number; high: number }[];
  verdicts: { step: number; kind: string; message: string }[];
  adjustments: { step: number; setting: string; from: number; to: number; reason: string }[];
  sample: string;
}

const { values } = parseArgs({
  options: {
    steps: { type: "string", default: "24" },
    seed: { type: "string", default: "1" },
    only: { type: "string" },
  },
});
const steps = Number(values.steps);
const seed = Number(values.seed);
const evaluateEvery = 4;

const quality: RewardFunction = new CompositeReward([
  new PolitenessReward(),
  new ConcisenessReward(),
  new HelpfulnessReward(),
]);

/** Courteous words in a reply, twenty at most: nothing says that they must make sense. */
const gameable = rewardFunction({ name: "courteousWords" }, ({ turns }) => {
  const text = turns
    .filter((turn) => turn.role === "assistant")
    .map((turn) => turn.content.toLowerCase())
    .join(" ");
  return Math.min(20, text.match(/\b(please|thank|thanks|sorry|welcome|happy|glad)\b/g)?.length ?? 0) / 20;
});

const cases = {
  rate: { reward: quality, learningRate: 2e-3 },
  hack: { reward: gameable, learningRate: 3e-4 },
} as const;

async function run(name: keyof typeof cases, adjusted: boolean): Promise<Curve> {
  const agent = new MultiTurnAgent({
    systemPrompt: "You are a helpful customer support agent.",
    sampling: { maxTokens: 32 },
  });
  const environment = customerService({ maxTurns: 1 });
  const heldOut = customerService({ maxTurns: 1, heldOut: true });
  const curve: Curve = {
    case: name,
    autoAdjust: adjusted,
    reward: [],
    entropy: [],
    quality: [],
    verdicts: [],
    adjustments: [],
    sample: "",
  };
  const measure = async (step: number) => {
    const { reward } = await evaluate({ agent, environment: heldOut, reward: quality, samples: 6, seed: 99 });
    const { mean, low = mean, high = mean } = reward;
    curve.quality.push({ step, mean, low, high });
    console.log(`${name}${adjusted ? " + autoAdjust" : ""}: step ${step}, quality ${reward.mean.toFixed(3)}`);
  };
  await agent.initialize();
  await measure(0);
  const shown: TrainingCallbacks = {
    onVerdict({ step, kind, message }) {
      curve.verdicts.push({ step, kind, message });
      console.log(`  step ${step}: ${message}`);
    },
    onAdjustment(adjustment) {
      curve.adjustments.push(adjustment);
      console.log(`  step ${adjustment.step}: ${adjustment.setting} ${adjustment.from} → ${adjustment.to}`);
    },
  };
  await train({
    agent,
    environment,
    reward: cases[name].reward,
    learningRate: cases[name].learningRate,
    schedule: "constant",
    warmup: 0,
    // Far from the reference only k2 pulls back: its gradient is that of the KL, while k3's fades on samples of the policy.
    kl: { estimator: "k2" },
    steps,
    seed,
    groupsPerStep: 3,
    groupSize: 8,
    dir: false,
    callbacks: [
      adjusted ? autoAdjust() : watchHealth(),
      shown,
      {
        async onStepEnd({ step, metrics, groups }) {
          curve.reward.push(metrics.reward ?? 0);
          curve.entropy.push(metrics.entropy ?? 0);
          curve.sample = groups[0]?.trajectories[0]?.turns.at(-1)?.content ?? "";
          if (step % evaluateEvery === 0) await measure(step);
        },
      },
    ],
  });
  await agent.close();
  return curve;
}

const curves: Curve[] = [];
for (const name of ["rate", "hack"] as const) {
  if (values.only !== undefined && values.only !== name) continue;
  for (const adjusted of [false, true]) curves.push(await run(name, adjusted));
}
const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));
mkdirSync(at("../results"), { recursive: true });
mkdirSync(at("../../docs/images"), { recursive: true });
const suffix = values.only === undefined ? "" : `-${values.only}`;
writeFileSync(
  at(`../results/collapse${suffix}.json`),
  `${JSON.stringify({ machine: describeMachine(), seed, steps, curves }, null, 2)}\n`,
);
for (const name of ["rate", "hack"] as const) {
  const own = curves.filter((curve) => curve.case === name);
  if (own.length > 0) writeFileSync(at(`../../docs/images/collapse-${name}.svg`), plot(own));
}
