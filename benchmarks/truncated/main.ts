/**
 * `npm run bench:truncated`: the demo's training as it is, with top-p 0.5 and the correction that train() makes by itself, and with top-p
 * 0.5 and the correction switched off. Task, model, reward and settings are the demo's; the seeds are none that it was tuned with.
 * The reward is measured before and after on held-out scenarios, drawn as the agent draws and from the whole distribution.
 * --steps N (default: the demo's), --seeds N,N,…, --top-p N, --no-write, --json (last line: the runs).
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { evaluate, MultiTurnAgent, train } from "stateset-agents";
import {
  demoAgent,
  demoEnvironment,
  demoReward,
  demoSettings,
} from "../../packages/stateset-agents/src/cli/demo/parts.ts";
import { describeMachine } from "../machine.ts";
import { type Arm, type Measured, page, type Run, rowOf, shown, stepLines, summary } from "./report.ts";

const { values: flags } = parseArgs({
  options: {
    steps: { type: "string", default: String(demoSettings.steps) },
    seeds: { type: "string", default: "11,12,13,14,15" },
    "top-p": { type: "string", default: "0.5" },
    json: { type: "boolean", default: false },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});
const steps = Number(flags.steps);
const topP = Number(flags["top-p"]);
const seeds = flags.seeds.split(",").map(Number);

const arms: Record<Arm, { topP: number; training: { correction?: false } }> = {
  whole: { topP: 1, training: {} },
  corrected: { topP, training: {} },
  uncorrected: { topP, training: { correction: false } },
};

async function run(arm: Arm, seed: number): Promise<Run> {
  const startedAt = performance.now();
  const whole = demoAgent();
  await whole.initialize();
  // The same policy and prompt; only what is drawn differs.
  const { systemPrompt } = whole.options;
  const sampling = { ...whole.sampling, topP: arms[arm].topP };
  const agent = new MultiTurnAgent({ policy: whole.policy, systemPrompt, sampling });
  try {
    const measure = async (of: MultiTurnAgent): Promise<Measured> => {
      const environment = demoEnvironment({ heldOut: true });
      const { reward, words, scenarios } = await evaluate({
        agent: of,
        environment,
        reward: demoReward(),
        samples: 6,
        seed,
      });
      return { reward, words, scenarios: Object.fromEntries(scenarios.map(({ id, mean }) => [id, mean])) };
    };
    const both = async () => {
      const own = await measure(agent);
      return { own, whole: sampling.topP === 1 ? own : await measure(whole) };
    };
    const before = await both();
    const { run: trained } = await train({
      ...demoSettings,
      ...arms[arm].training,
      steps,
      seed,
      agent,
      environment: demoEnvironment({ heldOut: false }),
      reward: demoReward(),
      dir: false,
    });
    const after = await both();
    const kept = (name: string) => name === "step" || (shown as readonly string[]).includes(name);
    const metrics = trained.metrics.map(
      (record) => Object.fromEntries(Object.entries(record).filter(([name]) => kept(name))) as typeof record,
    );
    const warnings = trained.warnings.map(({ kind, message }) => `${kind}: ${message}`);
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    return { arm, topP: arms[arm].topP, seed, before, after, steps: metrics, warnings, seconds };
  } finally {
    await whole.close();
  }
}

const runs: Run[] = [];
for (const seed of seeds) {
  for (const arm of Object.keys(arms) as Arm[]) {
    const own = await run(arm, seed);
    runs.push(own);
    console.log([rowOf(own), ...stepLines(own), ""].join("\n"));
  }
}
console.log(summary(runs).join("\n"));
if (flags.write) {
  const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));
  mkdirSync(at("../results"), { recursive: true });
  const result = { machine: describeMachine(), steps, topP, runs };
  writeFileSync(at("../results/truncated.json"), `${JSON.stringify(result, null, 2)}\n`);
  writeFileSync(at("../../docs/results/truncated.md"), page(runs, { steps, topP, machine: describeMachine() }));
}
if (flags.json) console.log(JSON.stringify({ steps, topP, runs }));
