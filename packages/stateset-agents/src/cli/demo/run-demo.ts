import { join, relative } from "node:path";
import type { Estimate } from "../../evaluation/estimate.ts";
import { evaluateWith } from "../../evaluation/evaluate.ts";
import { claimFolder, releaseEmpty } from "../../run/place.ts";
import { wrap } from "../../telemetry/columns.ts";
import { duration } from "../../telemetry/format.ts";
import { createLiveView } from "../../telemetry/live-view.ts";
import { train } from "../../training/train.ts";
import { CliExit } from "../failure.ts";
import { type CliIo, colorsOf, print, printJson, wantsColor } from "../io.ts";
import { modelLabel } from "../model-label.ts";
import { stopOnInterrupt } from "../run/interruption.ts";
import { watching } from "../run/watching.ts";
import {
  type DemoReward,
  demoAgent,
  demoEnvironment,
  demoReward,
  demoSettings,
  ownModelSettings,
  trainingReward,
} from "./parts.ts";
import { comparisonTable, conclusion, conversationPair, measuresOf } from "./report.ts";

export interface DemoOptions {
  /** Default 1. */
  seed?: number;
  /** Default 12. */
  steps?: number;
  threads?: number;
  /** A model folder, GGUF file or hub id in place of the bundled model; an adapter is trained on it. */
  model?: string;
  /** What the agent learns from. Default "polite". */
  reward?: DemoReward;
  /** One JSON object an event; the last line is the result. */
  json?: boolean;
}

/** The last line of `demo --json`. Intervals cover 95%. */
export interface DemoResult {
  /** The reward on held-out scenarios. */
  before: Estimate;
  after: Estimate;
  politeness: { before: number; after: number };
  wordsPerReply: { before: number; after: number };
  seed: number;
  steps: number;
  seconds: number;
  run: string;
  checkpoint: string;
}

/**
 * `npm run demo`: teaches the starter model to be polite and brief with GRPO, on the CPU, in a few minutes,
 * and shows what came of it on phrasings that training never saw.
 */
export async function runDemo(options: DemoOptions, io: CliIo): Promise<DemoResult> {
  const { seed = 1, steps = demoSettings.steps, reward = "polite", json = false, model } = options;
  const { learningRate, ...settings } = demoSettings;
  const colors = colorsOf(io);
  const say = (...lines: string[]) => {
    if (!json) print(io, ...lines);
  };
  const startedAt = performance.now();
  const agent = demoAgent(options);
  const environment = demoEnvironment({ heldOut: false });
  // Measuring a larger model takes longer than teaching it would: fewer scenarios, and a wider interval.
  const heldOut = demoEnvironment({ heldOut: true, ...(model !== undefined && { every: 3 }) });
  const view = createLiveView({ stream: io.stdout, color: wantsColor(io), ...(json && { mode: "json" as const }) });
  const { id: name, dir } = claimFolder(join(io.cwd, "runs"), `demo-seed${seed}`);
  const interruption = stopOnInterrupt(view, io, "Stopping");
  const { signal } = interruption;
  const measure = () => {
    const settings = { samples: model === undefined ? 2 : 1, seed, signal };
    return watching(json, io, (onProgress) =>
      evaluateWith({ agent, environment: heldOut, reward: demoReward(), ...settings }, { onProgress }),
    );
  };
  try {
    await agent.initialize();
    say(
      "",
      colors.bold("A support agent learns to be polite and brief"),
      ...wrap(
        `${modelLabel(agent.policy.model.name)}, ${(agent.policy.model.parameters / 1e6).toFixed(1)}M parameters · GRPO${model === undefined ? "" : ", LoRA"} · ${environment.scenarios.length} training scenarios, ${heldOut.scenarios.length} held out · seed ${seed}`,
        io.stdout.columns ?? 100,
      ),
      ...(reward === "polite" ? [] : [colors.yellow(`The reward it learns from is ${reward}.`)]),
      "",
      colors.dim("Talking to the untrained agent …"),
    );
    const before = await measure();
    const { run } = await train({
      ...settings,
      // The demo's rate is that of the bundled model; of another it is the one that suits its size.
      ...(model === undefined ? { learningRate } : ownModelSettings),
      steps,
      seed,
      agent,
      environment,
      reward: trainingReward(reward),
      name,
      dir,
      callbacks: view,
      signal,
    });
    if (run.status === "interrupted")
      throw new CliExit(interruption.status(), "The demo was stopped; start it again with `npm run demo`.");
    say("", colors.dim("Talking to the trained agent …"));
    const after = await measure();
    const [first, last] = [measuresOf(before), measuresOf(after)];
    const result: DemoResult = {
      before: first.reward,
      after: last.reward,
      politeness: { before: first.politeness.mean, after: last.politeness.mean },
      wordsPerReply: { before: first.words.mean, after: last.words.mean },
      seed,
      steps,
      seconds: Math.round((performance.now() - startedAt) / 1000),
      run: run.dir!,
      checkpoint: run.finalDir!,
    };
    say("", ...comparisonTable(first, last, colors), "", conclusion(before, after, colors));
    for (const index of [0, before.groups.length - 1]) {
      const pair = [before, after].map((evaluation) => evaluation.groups[index]!.trajectories[0]!);
      say("", ...conversationPair(pair[0]!, pair[1]!, io.stdout.columns ?? 100, colors));
    }
    const checkpoint = relative(io.cwd, result.checkpoint);
    say(
      "",
      `${colors.green("✓")} ${duration(performance.now() - startedAt)}. The trained agent is in ${colors.cyan(checkpoint)}`,
      "",
      colors.dim("Next:"),
      `  npx stateset-agents chat --checkpoint ${checkpoint}`,
      `  npx stateset-agents evaluate --checkpoint ${checkpoint} --message "Where is my order?"`,
      "  npx stateset-agents init my-agent",
    );
    if (json) printJson(io, result);
    return result;
  } finally {
    interruption.done();
    releaseEmpty(dir);
    await agent.close();
  }
}
