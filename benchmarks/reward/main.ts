/**
 * `npm run bench:reward`: CPU seconds and seconds by the clock until the demo's task, in its single-turn form, reaches a mean reward of 0.9,
 * beside TRL's GRPOTrainer in the same run. Needs STATESET_PYTHON (a Python with trl) for TRL's side.
 * --seeds N,N (default 1,2,3), --quick (seed 1), --json (last line: the ratios), --check, --no-write.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { starterModelPath } from "@stateset-agents/starter-model";
import { resolveConfig } from "stateset-agents/algorithms";
import { algorithmDefaults } from "../../packages/stateset-agents/src/algorithm/algorithms.ts";
import { demoAgent } from "../../packages/stateset-agents/src/cli/demo/parts.ts";
import { describeMachine, gainsByBf16, machineKind, measureRoofline, rooflineText } from "../machine.ts";
import { compareWithCommitted, requirePeer } from "../regressions.ts";
import { keepRecord } from "../results.ts";
import { type PeerSetting, ratiosOf, reachedAt, type Side, type Training } from "./measure.ts";
import { cite, headline, page, type RewardRecord, trainingLine } from "./report.ts";
import { maxSteps, openers, settings, target, window } from "./task.ts";

const { values: flags } = parseArgs({
  options: {
    seeds: { type: "string", default: "1,2,3" },
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    check: { type: "boolean", default: false },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});
const seeds = flags.quick ? [1] : flags.seeds.split(",").map(Number);
const python = process.env.STATESET_PYTHON;
requirePeer(flags.check, python);
const cores = availableParallelism();
const threadCounts = [...new Set([cores, 1])];
const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const file = at("../results/reward.json");

const child = execFileSync(process.execPath, [at("../bundle.mjs"), at("child.ts"), "reward-child"], {
  encoding: "utf8",
}).trim();
const agent = demoAgent();
const { temperature = 1, maxTokens = 0 } = agent.sampling;
const perStep = settings.groupsPerStep * settings.groupSize;

function lastLine(command: string, args: string[]): Training {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: "utf8", maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${args[0]} failed:\n${stderr.split("\n").slice(-15).join("\n")}`);
  return JSON.parse(stdout.trim().split("\n").at(-1)!) as Training;
}

function byOurs(seed: number, { threads, gradients }: Side): Training {
  return lastLine(process.execPath, [child, "ours", JSON.stringify({ seed, threads, gradients })]);
}

/** As far as TRL knows the settings they are those that train() resolves for itself. */
function byTrl(seed: number, setting: PeerSetting, steps: number): Training {
  const out = mkdtempSync(join(tmpdir(), "stateset-trl-"));
  const { beta1, beta2, epsilon, weightDecay, clipNorm } = resolveConfig({ ...settings });
  const { epsilonLow, epsilonHigh } = algorithmDefaults("grpo") as { epsilonLow: number; epsilonHigh: number };
  const { groupsPerStep, groupSize, learningRate } = settings;
  const given = {
    ...{ ...setting, seed, steps, target, window, out, temperature, maxTokens },
    ...{ groupsPerStep, groupSize, learningRate, epsilonLow, epsilonHigh },
    ...{ beta1, beta2, epsilon, weightDecay, clipNorm },
    model: starterModelPath,
    systemPrompt: agent.options.systemPrompt,
    openers: openers(seed, steps),
    rewardCommand: [process.execPath, child, "rewards", JSON.stringify({ threads: setting.threads })],
  };
  try {
    return lastLine(python!, [at("trl_peer.py"), JSON.stringify(given)]);
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

/** A training that never got there would make the figure one of luck. */
function reached(who: string, seed: number, training: Training): Training {
  console.log(trainingLine(who, seed, training));
  if (reachedAt(training.rewards, target, window) === undefined) {
    throw new Error(`${who} did not reach ${target} in ${maxSteps} steps with seed ${seed}.`);
  }
  return training;
}

const machine = describeMachine();
const roofline = measureRoofline();
console.log(machine);
if (roofline) console.log(rooflineText(roofline));
const before = loadavg()[0]!;
console.log(`load ${before.toFixed(1)}`);

const tried: RewardRecord["tried"] = [];
if (python) {
  for (const dtype of ["float32", "bfloat16"] as const) {
    for (const batch of [perStep, perStep / settings.groupsPerStep]) {
      const setting = { threads: 1, dtype, batch };
      const { cpuSeconds, rewards } = byTrl(1, setting, 2);
      tried.push({ setting, cpuSecondsAStep: cpuSeconds / rewards.length });
      console.log(`TRL, ${dtype}, ${batch} a pass: ${tried.at(-1)!.cpuSecondsAStep.toFixed(2)} CPU s a step`);
    }
  }
} else {
  console.log("STATESET_PYTHON is not set: TRL was not measured.");
}
const best = [...tried].sort((a, b) => a.cpuSecondsAStep - b.cpuSecondsAStep)[0]?.setting;

const ours: Side[] = threadCounts.map((threads) => ({ threads, trainings: [] }));
const oursBf16: Side[] = gainsByBf16
  ? threadCounts.map((threads) => ({ threads, gradients: "bf16", trainings: [] }))
  : [];
const trl: Side[] = best
  ? threadCounts.map((threads) => ({ threads, setting: { ...best, threads }, trainings: [] }))
  : [];
const date = new Date().toISOString().slice(0, 10);
// Seed by seed, so that what disturbs the machine meets both sides; and what is measured is kept if the rest is interrupted.
for (const [i, seed] of seeds.entries()) {
  for (const side of [...ours, ...oursBf16]) {
    const who = `ours, ${side.threads} threads${side.gradients ? `, gradients in ${side.gradients}` : ""}`;
    side.trainings.push(reached(who, seed, byOurs(seed, side)));
  }
  for (const { threads, setting, trainings } of trl) {
    trainings.push(reached(`TRL, ${threads} threads`, seed, byTrl(seed, setting!, maxSteps)));
  }
  const done = seeds.slice(0, i + 1);
  const load = { before, after: loadavg()[0]! };
  const record = {
    machine,
    date,
    ...(roofline && { roofline }),
    load,
    seeds: done,
    ours,
    trl,
    tried,
    ...(gainsByBf16 && { oursBf16 }),
  };
  if (trl.length > 0) console.log(headline(record));
  if (flags.write) {
    const records = keepRecord<RewardRecord>(file, machineKind(), record);
    const task = { target, window, temperature, maxTokens, ...settings };
    writeFileSync(at("../../docs/results/reward.md"), page(records, task));
    const readme = at("../../README.md");
    if (trl.length > 0) writeFileSync(readme, cite(readFileSync(readme, "utf8"), record));
  }
}
if (trl.length > 0) {
  const named = (sides: readonly Side[], suffix: string, peers: readonly Side[]) =>
    Object.entries(ratiosOf(sides, peers)).map(([key, ratio]) => [key + suffix, ratio] as const);
  const ratios = (record: Pick<RewardRecord, "ours" | "oursBf16" | "trl">): Record<string, number> =>
    record.trl.length === 0
      ? {}
      : Object.fromEntries([
          ...named(record.ours, "", record.trl),
          ...(record.oursBf16 ? named(record.oursBf16, ", gradients in bf16", record.trl) : []),
        ]);
  const found = { ours, ...(gainsByBf16 && { oursBf16 }), trl };
  compareWithCommitted<RewardRecord>(file, machineKind(), ratios, ratios(found), { check: flags.check });
}
if (flags.json) console.log(JSON.stringify(trl.length > 0 ? ratiosOf(ours, trl) : {}));
