/**
 * `npm run bench:grpo`: one whole GRPO step (sampling, reward, update) on the starter model, all weights trained, beside TRL's GRPOTrainer
 * on the same model, prompts, group size and lengths, in one run. Needs STATESET_PYTHON (a Python with trl) for TRL's side.
 * Where it brings speed also with `gradients: "bf16"`, beside the faster of TRL in f32 and in bf16.
 * --json (last line: {"short": ratio, "longPrompt": ratio}), --steps N, --quick (no table over group sizes), --check, --no-write.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ConversationEnvironment, MultiTurnAgent, RewardFunction, type RewardInput, train } from "stateset-agents";
import { buildTokenTree } from "stateset-agents/policy";
import { describeMachine, gainsByBf16, machineKind, measureRoofline, rooflineText } from "../machine.ts";
import { compareWithCommitted, requirePeer } from "../regressions.ts";
import { keepRecord } from "../results.ts";
import { type GrpoRecord, ratiosOf, type Timed } from "./record.ts";
import { endlessStarter, longSystem, prompts, shortSystem, users } from "./workload.ts";

const { values: flags } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    steps: { type: "string", default: "5" },
    quick: { type: "boolean", default: false },
    check: { type: "boolean", default: false },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});
const steps = Number(flags.steps);
const replyTokens = 48;
const file = fileURLToPath(new URL("../results/grpo.json", import.meta.url));
const python = process.env.STATESET_PYTHON;
requirePeer(flags.check, python);

class DistinctWords extends RewardFunction {
  constructor() {
    super({ name: "distinct" });
  }
  override async compute({ turns }: RewardInput) {
    const score = new Set(turns.at(-1)!.content.split(" ")).size;
    return { score, breakdown: { distinct: score } };
  }
}

const model = await endlessStarter();
try {
  await main();
} finally {
  rmSync(model, { recursive: true, force: true });
}

async function main(): Promise<void> {
  const machine = describeMachine();
  const roofline = measureRoofline();
  console.log(machine);
  if (roofline) console.log(rooflineText(roofline));
  const counter = new MultiTurnAgent({ model });
  await counter.initialize();
  const count = (text: string) => counter.policy.tokenizer.encode(text).length;
  const systems = { short: shortSystem, longPrompt: longSystem(800, count) };
  // The prompts share the system prompt, so a tree holds it once.
  const promptTokens = (system: string) => {
    const { tokenizer } = counter.policy;
    const chains = prompts(system).map((messages) => {
      const { tokens } = tokenizer.extend(undefined, messages, { addGenerationPrompt: true });
      return { tokens, learn: new Uint8Array(tokens.length) };
    });
    const total = chains.reduce((sum, { tokens }) => sum + tokens.length, 0);
    return { total, distinct: buildTokenTree(chains).tree.tokens.length };
  };
  const lengths = { short: promptTokens(systems.short), longPrompt: promptTokens(systems.longPrompt) };
  await counter.close();

  const results: GrpoRecord["results"] = {};
  const arms = [
    { name: "short", prompts: "short", gradients: "f32" },
    ...(gainsByBf16 ? ([{ name: "shortBf16", prompts: "short", gradients: "bf16" }] as const) : []),
    { name: "longPrompt", prompts: "longPrompt", gradients: "f32" },
  ] as const;
  for (const { name, prompts, gradients } of arms) {
    const ours = await timeOurs(systems[prompts], 8, steps, gradients);
    const trl = python ? timeTrl(systems[prompts], 8, gradients, results[prompts]?.trl) : undefined;
    const ratio = trl && trl.median / ours.median;
    results[name] = { ours, ...(trl && { trl }), ...(ratio && { ratio }), promptTokens: lengths[prompts] };
    console.log(
      `${name.padEnd(10)} ours ${ours.median.toFixed(3)} s a step (sampling ${ours.rollout!.toFixed(3)}, update ${ours.update!.toFixed(3)}; ${ours.meanTokens.toFixed(1)} tokens a reply)` +
        (trl
          ? `, TRL ${trl.median.toFixed(3)} s (${trl.meanTokens.toFixed(1)} tokens a reply): ${ratio!.toFixed(1)}×; in processor seconds ${ours.cpu.toFixed(2)} and ${trl.cpu.toFixed(2)}: ${(trl.cpu / ours.cpu).toFixed(1)}×`
          : ""),
    );
  }
  if (!python) console.log("STATESET_PYTHON is not set: TRL was not measured.");

  const bySize: GrpoRecord["bySize"] = [];
  for (const group of flags.quick ? [] : [2, 4, 8, 16, 32]) {
    const { median } = await timeOurs(systems.longPrompt, group, 3);
    const replies = users.length * group * replyTokens;
    const { distinct, total } = lengths.longPrompt;
    bySize.push({ group, seconds: median, distinctTokens: distinct + replies, allTokens: total * group + replies });
  }
  if (bySize.length > 0) {
    console.log("\nWith the 800-token system prompt, by group size:\n");
    console.log("| group size | seconds a step | distinct tokens | tokens without sharing | µs per distinct token |");
    console.log("| --: | --: | --: | --: | --: |");
    for (const { group, seconds, distinctTokens, allTokens } of bySize) {
      console.log(
        `| ${group} | ${seconds.toFixed(3)} | ${distinctTokens} | ${allTokens} | ${((seconds / distinctTokens) * 1e6).toFixed(0)} |`,
      );
    }
  }
  if (flags.write) {
    keepRecord<GrpoRecord>(file, machineKind(), {
      machine,
      date: new Date().toISOString().slice(0, 10),
      ...(roofline && { roofline }),
      replyTokens,
      groupSize: 8,
      results,
      bySize,
    });
  }
  if (python)
    compareWithCommitted<GrpoRecord>(file, machineKind(), ratiosOf, ratiosOf({ results }), { check: flags.check });
  if (flags.json) {
    console.log(JSON.stringify(Object.fromEntries(arms.map(({ name }) => [name, results[name]!.ratio ?? null]))));
  }
}

async function timeOurs(
  system: string,
  groupSize: number,
  measured: number,
  gradients: "f32" | "bf16" = "f32",
): Promise<Timed> {
  const agent = new MultiTurnAgent({
    model,
    gradients,
    systemPrompt: system,
    sampling: { temperature: 1, maxTokens: replyTokens },
  });
  await agent.initialize();
  const timings: { total: number; rollout: number; update: number; cpu: number }[] = [];
  let cpuBefore = process.cpuUsage();
  let tokens = 0;
  let replies = 0;
  await train({
    agent,
    environment: new ConversationEnvironment({
      scenarios: users.map((user, i) => ({ id: `p${i}`, userResponses: [user] })),
    }),
    reward: new DistinctWords(),
    steps: measured + 1,
    groupsPerStep: users.length,
    groupSize,
    learningRate: 1e-4,
    schedule: "constant",
    warmup: 0,
    dir: false,
    callbacks: {
      onStepStart() {
        cpuBefore = process.cpuUsage();
      },
      onStepEnd({ timing: { rolloutMs, updateMs }, metrics }) {
        const { user, system: kernel } = process.cpuUsage(cpuBefore);
        timings.push({ total: rolloutMs + updateMs, rollout: rolloutMs, update: updateMs, cpu: (user + kernel) / 1e6 });
        tokens += metrics.sampledTokens!;
        replies += metrics.replies!;
      },
    },
  });
  await agent.close();
  const kept = timings.slice(1);
  const middle = [...kept].sort((a, b) => a.total - b.total)[Math.floor(kept.length / 2)]!;
  return {
    seconds: kept.map(({ total }) => total / 1000),
    median: middle.total / 1000,
    cpu: middleOf(kept.map(({ cpu }) => cpu)),
    meanTokens: tokens / replies,
    rollout: middle.rollout / 1000,
    update: middle.update / 1000,
  };
}

/** With bf16 the faster of that and of f32, which was measured before. */
function timeTrl(system: string, group: number, gradients: "f32" | "bf16", inF32?: Timed): Timed {
  const folder = mkdtempSync(join(tmpdir(), "stateset-trl-"));
  try {
    const file = join(folder, "prompts.json");
    writeFileSync(file, JSON.stringify(prompts(system)));
    const script = fileURLToPath(new URL("trl_peer.py", import.meta.url));
    const options = {
      model,
      prompts: file,
      group,
      tokens: replyTokens,
      steps: Math.min(steps, 3) + 1,
      dtype: gradients === "bf16" ? "bfloat16" : "float32",
      out: join(folder, "out"),
    };
    const args = Object.entries(options).flatMap(([key, value]) => [`--${key}`, String(value)]);
    const done = spawnSync(python!, [script, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
    if (done.status !== 0) throw new Error(`trl_peer.py failed:\n${done.stderr.split("\n").slice(-15).join("\n")}`);
    const answer = JSON.parse(done.stdout.trim().split("\n").at(-1)!) as Record<"seconds" | "cpuSeconds", number[]> & {
      meanTokens: number;
    };
    const seconds = answer.seconds.slice(1);
    const found = {
      seconds,
      median: middleOf(seconds),
      cpu: middleOf(answer.cpuSeconds.slice(1)),
      meanTokens: answer.meanTokens,
    };
    return inF32 && inF32.median < found.median ? inF32 : found;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function middleOf(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}
