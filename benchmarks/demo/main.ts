/**
 * `npm run bench:demo`: the demo's training with seeds 1 to 3, with the reward flipped and constant, and SFT on the best of as many
 * conversations, measured on held-out scenarios by the reward that the demo reports. Whether weights moved is read from the weights.
 * --steps N (default: the demo's), --no-write, --json (last line: the runs).
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { evaluate } from "stateset-agents";
import type { Estimate } from "stateset-agents/telemetry";
import { type DemoReward, trainingReward } from "../../packages/stateset-agents/src/cli/demo/demo-task.ts";
import {
  demoAgent,
  demoEnvironment,
  demoReward,
  demoSettings,
  politeTask,
} from "../../packages/stateset-agents/src/cli/demo/parts.ts";
import { measuresOf } from "../../packages/stateset-agents/src/cli/demo/report.ts";
import { type PairedResult, pairedTest } from "../../packages/stateset-agents/src/evaluation/paired-test.ts";
import { change, estimateText } from "../estimate.ts";
import { describeMachine } from "../machine.ts";
import { harvests, samplesPerScenario, type Way, ways } from "./learn.ts";

const { values: flags } = parseArgs({
  options: {
    steps: { type: "string", default: String(demoSettings.steps) },
    json: { type: "boolean", default: false },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});
const steps = Number(flags.steps);

interface Measured {
  reward: Estimate;
  politeness: Estimate;
  words: Estimate;
}

interface Run {
  way: Way;
  learnsFrom: DemoReward;
  seed: number;
  before: Measured;
  after: Measured;
  /** Mean reward after training of each held-out scenario. */
  scenarios: Record<string, number>;
  /** Sampled to learn from. */
  conversations: number;
  /** Weights whose bits differ after training. */
  weightsMoved: number;
  weights: number;
  seconds: number;
}

const seeds = [1, 2, 3];
const planned: [Way, DemoReward, number][] = [
  ...seeds.map((seed): [Way, DemoReward, number] => ["grpo", "polite", seed]),
  ["grpo", "flipped", 1],
  ["grpo", "constant", 1],
  ...seeds.map((seed): [Way, DemoReward, number] => ["sft-best-of-n", "polite", seed]),
  ...seeds.map((seed): [Way, DemoReward, number] => ["sft-best-of-n-4", "polite", seed]),
];

async function run(way: Way, learnsFrom: DemoReward, seed: number): Promise<Run> {
  const startedAt = performance.now();
  const agent = demoAgent();
  await agent.initialize();
  try {
    const environment = demoEnvironment({ heldOut: true });
    const measure = async () => {
      const evaluation = await evaluate({ agent, environment, reward: demoReward(), samples: 6, seed });
      const scenarios = Object.fromEntries(evaluation.scenarios.map(({ id, mean }) => [id, mean]));
      return { measured: measuresOf(evaluation), scenarios };
    };
    const weightsBefore = await (await agent.policy.vector("parameters")).read();
    const { measured: before } = await measure();
    const conversations = await ways[way]({ agent, reward: trainingReward(politeTask, learnsFrom), steps, seed });
    const { measured: after, scenarios } = await measure();
    const weightsAfter = await (await agent.policy.vector("parameters")).read();
    const weightsMoved = weightsAfter.reduce((sum, value, i) => sum + (Object.is(value, weightsBefore[i]) ? 0 : 1), 0);
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    const weights = weightsAfter.length;
    return { way, learnsFrom, seed, before, after, scenarios, conversations, weightsMoved, weights, seconds };
  } finally {
    await agent.close();
  }
}

function verdict({ before, after }: Run): string {
  return change(before.reward, after.reward);
}

function explanation(runs: readonly Run[]): string {
  const sampled = (way: Way) => runs.find((one) => one.way === way)!.conversations;
  const { "sft-best-of-n": once, "sft-best-of-n-4": repeated } = harvests;
  const n = (rounds: number) => samplesPerScenario(rounds, steps);
  return `\`sft-best-of-n\` samples ${n(once.rounds)} conversations of every training scenario from the untrained model and imitates the best of each
with the same learning rate in ${once.updates} updates (100 gave no more with seed 1). \`sft-best-of-n-4\` does so in ${repeated.rounds} rounds, each sampling ${n(repeated.rounds)} from what the one before has made; that is
already a simple reinforcement learning (RAFT, expert iteration). They have ${sampled("sft-best-of-n")} and ${sampled("sft-best-of-n-4")} conversations, GRPO has ${sampled("grpo")}. Rewards of the held-out scenarios are means over the three seeds; the
difference is over scenarios, in pairs, with a 95% interval and the p-value of a sign-flip test.`;
}

/** GRPO against another way: rewards of the held-out scenarios, each the mean over the seeds, compared in pairs. */
function against(other: Way, runs: readonly Run[]): PairedResult {
  const means = (way: Way) => {
    const own = runs.filter((one) => one.way === way && one.learnsFrom === "polite");
    return Object.keys(own[0]!.scenarios).map(
      (id) => own.reduce((sum, one) => sum + one.scenarios[id]!, 0) / own.length,
    );
  };
  return pairedTest(means(other), means("grpo"));
}

function comparisonRow(other: Way, runs: readonly Run[]): string {
  const { difference, pValue, verdict: better } = against(other, runs);
  const signed = (value: number) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
  const words = { b: "GRPO is better", a: "GRPO is worse", same: "even", unknown: "too few to tell" }[better];
  return `| ${other} | ${estimateText(difference, signed)} | ${pValue.toPrecision(2)} | ${words} |`;
}

function page(runs: readonly Run[]): string {
  const percent = (value: number) => `${Math.round(100 * value)}%`;
  const rows = runs.map((own) => {
    const { way, learnsFrom, seed, before, after, weightsMoved, weights } = own;
    return `| ${[
      way,
      learnsFrom,
      seed,
      estimateText(before.reward),
      estimateText(after.reward),
      verdict(own),
      `${percent(before.politeness.mean)} → ${percent(after.politeness.mean)}`,
      `${before.words.mean.toFixed(1)} → ${after.words.mean.toFixed(1)}`,
      weightsMoved === 0 ? "yes" : `no (${weightsMoved} of ${weights} moved)`,
    ].join(" | ")} |`;
  });
  return `# The demo, measured

Written by \`npm run bench:demo\`: what \`npm run demo\` trains (${steps} steps of GRPO on the starter model), with three seeds, and with a reward that is
flipped or constant; and supervised fine-tuning on the best of as many conversations. Everything is measured on held-out scenarios with the demo's
own reward (half courtesy, half brevity); intervals cover 95%.

| learns by | from | seed | reward before | reward after | | polite replies | words per reply | weights unchanged |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
${rows.join("\n")}

## Against SFT on best-of-N

${explanation(runs)}

| GRPO against | difference in reward | p | |
| --- | --- | --- | --- |
${comparisonRow("sft-best-of-n", runs)}
${comparisonRow("sft-best-of-n-4", runs)}

Machine: ${describeMachine()}.
`;
}

const runs: Run[] = [];
for (const [way, learnsFrom, seed] of planned) {
  const own = await run(way, learnsFrom, seed);
  runs.push(own);
  const { before, after, weightsMoved, conversations, seconds } = own;
  console.log(
    `${way}, ${learnsFrom}, seed ${seed}: ${before.reward.mean.toFixed(3)} → ${after.reward.mean.toFixed(3)}, ${verdict(own)}, ${conversations} conversations, ${weightsMoved} weights moved, ${seconds} s`,
  );
}
for (const other of ["sft-best-of-n", "sft-best-of-n-4"] as const) console.log(comparisonRow(other, runs));
if (flags.write) {
  const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));
  mkdirSync(at("../results"), { recursive: true });
  writeFileSync(
    at("../results/demo.json"),
    `${JSON.stringify({ machine: describeMachine(), steps, runs }, null, 2)}\n`,
  );
  writeFileSync(at("../../docs/results/demo.md"), page(runs));
}
if (flags.json) console.log(JSON.stringify({ steps, runs }));
