/**
 * `npm run bench:demo`: the demo's training with seeds 1 to 3, and with the reward flipped and constant, measured on held-out scenarios
 * by the reward that the demo reports. Whether weights moved is read from the weights.
 * --steps N (default: the demo's), --no-write, --json (last line: the runs).
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type Estimate, evaluate, train } from "stateset-agents";
import {
  type DemoReward,
  demoAgent,
  demoEnvironment,
  demoReward,
  demoSettings,
  trainingReward,
} from "../../packages/stateset-agents/src/demo/parts.ts";
import { measuresOf } from "../../packages/stateset-agents/src/demo/report.ts";
import { describeMachine } from "../machine.ts";

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
  learnsFrom: DemoReward;
  seed: number;
  before: Measured;
  after: Measured;
  /** Weights whose bits differ after training. */
  weightsMoved: number;
  weights: number;
  seconds: number;
}

const planned: [DemoReward, number][] = [
  ["polite", 1],
  ["polite", 2],
  ["polite", 3],
  ["flipped", 1],
  ["constant", 1],
];

async function run(learnsFrom: DemoReward, seed: number): Promise<Run> {
  const startedAt = performance.now();
  const agent = demoAgent();
  await agent.initialize();
  try {
    const environment = demoEnvironment({ heldOut: true });
    const measure = async () =>
      measuresOf(await evaluate({ agent, environment, reward: demoReward(), samples: 6, seed }));
    const weightsBefore = await agent.policy.readVector("parameters");
    const before = await measure();
    await train({
      ...demoSettings,
      steps,
      seed,
      agent,
      environment: demoEnvironment({ heldOut: false }),
      reward: trainingReward(learnsFrom),
      dir: false,
    });
    const after = await measure();
    const weightsAfter = await agent.policy.readVector("parameters");
    const weightsMoved = weightsAfter.reduce((sum, value, i) => sum + (Object.is(value, weightsBefore[i]) ? 0 : 1), 0);
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    return { learnsFrom, seed, before, after, weightsMoved, weights: weightsAfter.length, seconds };
  } finally {
    await agent.close();
  }
}

function verdict({ before, after }: Run): string {
  if (after.reward.low > before.reward.high) return "better";
  return after.reward.high < before.reward.low ? "worse" : "intervals overlap";
}

function page(runs: readonly Run[]): string {
  const reward = ({ mean, low, high }: Estimate) => `${mean.toFixed(3)} [${low.toFixed(3)}, ${high.toFixed(3)}]`;
  const percent = (value: number) => `${Math.round(100 * value)}%`;
  const rows = runs.map((own) => {
    const { learnsFrom, seed, before, after, weightsMoved, weights } = own;
    return `| ${[
      learnsFrom,
      seed,
      reward(before.reward),
      reward(after.reward),
      verdict(own),
      `${percent(before.politeness.mean)} → ${percent(after.politeness.mean)}`,
      `${before.words.mean.toFixed(1)} → ${after.words.mean.toFixed(1)}`,
      weightsMoved === 0 ? "yes" : `no (${weightsMoved} of ${weights} moved)`,
    ].join(" | ")} |`;
  });
  return `# The demo, measured

Written by \`npm run bench:demo\`: what \`npm run demo\` trains (${steps} steps of GRPO on the starter model), with three seeds, and with a reward that is
flipped or constant. Everything is measured on held-out scenarios with the demo's own reward (half courtesy, half brevity); intervals cover 95%.

| learns from | seed | reward before | reward after | | polite replies | words per reply | weights unchanged |
| --- | --- | --- | --- | --- | --- | --- | --- |
${rows.join("\n")}

Machine: ${describeMachine()}.
`;
}

const runs: Run[] = [];
for (const [learnsFrom, seed] of planned) {
  const own = await run(learnsFrom, seed);
  runs.push(own);
  const { before, after, weightsMoved, seconds } = own;
  console.log(
    `${learnsFrom}, seed ${seed}: ${before.reward.mean.toFixed(3)} → ${after.reward.mean.toFixed(3)}, ${verdict(own)}, ${weightsMoved} weights moved, ${seconds} s`,
  );
}
if (flags.write) {
  const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));
  mkdirSync(at("../results"), { recursive: true });
  writeFileSync(
    at("../results/demo.json"),
    `${JSON.stringify({ machine: describeMachine(), steps, runs }, null, 2)}\n`,
  );
  writeFileSync(at("../../docs/demo-results.md"), page(runs));
}
if (flags.json) console.log(JSON.stringify({ steps, runs }));
