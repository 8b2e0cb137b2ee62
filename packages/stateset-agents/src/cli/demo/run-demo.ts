import { join, relative } from "node:path";
import { hasCode } from "../../error.ts";
import type { Estimate } from "../../evaluation/estimate.ts";
import { evaluateWith } from "../../evaluation/evaluate.ts";
import type { EngineFlags } from "../../project/on-engine.ts";
import { claimFolder, releaseEmpty } from "../../run/place.ts";
import { wrap } from "../../telemetry/columns.ts";
import { duration } from "../../telemetry/format.ts";
import { createLiveView } from "../../telemetry/live-view.ts";
import type { TrainingCallbacks } from "../../training/callbacks.ts";
import { train } from "../../training/train.ts";
import { CliExit } from "../failure.ts";
import { type CliIo, colorsOf, print, printJson, wantsColor } from "../io.ts";
import { modelLabel } from "../model-label.ts";
import { interrupted, stopOnInterrupt } from "../run/interruption.ts";
import { writeInvocation } from "../run/invocation.ts";
import { commandLine, shown } from "../run/place.ts";
import { watching } from "../run/watching.ts";
import { type DemoReward, trainingReward } from "./demo-task.ts";
import { conclusion, conversationPair } from "./report.ts";
import { resumedDemo } from "./resume-demo.ts";
import { type DemoTaskName, demoTasks } from "./tasks.ts";

export interface DemoOptions extends EngineFlags {
  /** What the agent is to learn. Default "polite". */
  task?: DemoTaskName;
  /** Default 1. */
  seed?: number;
  /** Default: the task's. */
  steps?: number;
  /** A model folder, GGUF file or hub id in place of the bundled model; an adapter is trained on it. */
  model?: string;
  /** What the agent learns from. Default: the task's own reward. */
  reward?: DemoReward;
  /** A demo that was stopped, or `true` for the newest: goes on with it, by its own task, seed, steps, reward and model. */
  resume?: string | true;
  /** One JSON object an event; the last line is the result. */
  json?: boolean;
}

/** The last line of `demo --json`, beside the task's own measures. Intervals cover 95%. */
export interface DemoResult {
  task: DemoTaskName;
  /** The reward on held-out scenarios. */
  before: Estimate;
  after: Estimate;
  seed: number;
  steps: number;
  seconds: number;
  run: string;
  checkpoint: string;
}

/** `npm run demo`: teaches the starter model a task with GRPO, on the CPU, in a few minutes, and shows what came of it on phrasings that training never saw. */
export async function runDemo(given: DemoOptions, io: CliIo): Promise<DemoResult> {
  const { options, resumeFrom } = resumedDemo(given, io);
  const { task: taskName = "polite", seed = 1, json = false, model } = options;
  const task = demoTasks[taskName];
  const { steps = task.settings.steps, reward = task.paidFor } = options;
  const { learningRate, ...settings } = task.settings;
  const taught = trainingReward(task, reward);
  const colors = colorsOf(io);
  const say = (...lines: string[]) => {
    if (!json) print(io, ...lines);
  };
  const startedAt = performance.now();
  const agent = task.agent(options);
  const environment = task.training();
  // Measuring a larger model takes longer than teaching it would: fewer scenarios, and a wider interval.
  const heldOut = task.heldOut({ few: model !== undefined });
  const view = createLiveView({ stream: io.stdout, color: wantsColor(io), ...(json && { mode: "json" as const }) });
  const place =
    resumeFrom === undefined
      ? claimFolder(join(io.cwd, "runs"), `${task === demoTasks.polite ? "demo" : `demo-${taskName}`}-seed${seed}`)
      : undefined;
  const interruption = stopOnInterrupt(view, io, "Stopping");
  const { signal } = interruption;
  const measure = () => {
    const settings = { samples: model === undefined ? 2 : 1, seed, signal };
    return watching(json, io, (onProgress) =>
      evaluateWith({ agent, environment: heldOut, reward: task.reward(), ...settings }, { onProgress }),
    );
  };
  /** Once it has learnt. */
  let trained: Parameters<typeof interrupted>[0] | undefined;
  try {
    await agent.initialize();
    say(
      "",
      colors.bold(task.title),
      ...wrap(
        `${modelLabel(agent.policy.model.name)}, ${(agent.policy.model.parameters / 1e6).toFixed(1)}M parameters · GRPO${model === undefined ? "" : ", LoRA"} · ${environment.scenarios.length} training scenarios, ${heldOut.scenarios.length} held out · seed ${seed}`,
        io.stdout.columns ?? 100,
      ),
      ...(reward === task.paidFor ? [] : [colors.yellow(`The reward it learns from is ${reward}.`)]),
      "",
      colors.dim("Talking to the untrained agent …"),
    );
    // Also of one that is resumed: nothing of it is restored yet, and the same seed gives the same conversations.
    const before = await measure();
    const parts = { agent, environment, reward: taught, signal };
    const demo = { task: taskName, seed, steps, reward };
    const keep: TrainingCallbacks = {
      onStart({ dir }) {
        writeInvocation(dir!, "demo", { ...options, demo }, io);
      },
    };
    const { run } =
      place === undefined
        ? await train({ ...parts, resumeFrom: resumeFrom!, callbacks: view })
        : await train({
            ...settings,
            // The demo's rate is that of the bundled model; of another it is the one that suits its size.
            ...(model === undefined ? learningRate !== undefined && { learningRate } : task.ownModelSettings),
            ...{ steps, seed, name: place.id, dir: place.dir },
            ...parts,
            callbacks: [view, keep],
          });
    if (run.status === "interrupted") throw interrupted(run, "demo", interruption, json, io);
    trained = { steps: run.steps, dir: run.dir, said: "Stopped after training, before the last measurement." };
    say("", colors.dim("Talking to the trained agent …"));
    const after = await measure();
    const result: DemoResult = {
      task: taskName,
      before: before.reward,
      after: after.reward,
      ...task.measures(before, after),
      seed,
      steps,
      seconds: Math.round((performance.now() - startedAt) / 1000),
      run: run.dir!,
      checkpoint: run.finalDir!,
    };
    say("", ...task.table(before, after, colors), "", conclusion(before, after, colors));
    for (const index of task.shown(before)) {
      const pair = [before, after].map((evaluation) => evaluation.groups[index]!.trajectories[0]!);
      say("", ...conversationPair(pair[0]!, pair[1]!, io.stdout.columns ?? 100, colors));
    }
    const checkpoint = relative(io.cwd, result.checkpoint);
    say(
      "",
      `${colors.green("✓")} ${duration(performance.now() - startedAt)}. The trained agent is in ${colors.cyan(checkpoint)}`,
      "",
      colors.dim("Next:"),
      ...["npx stateset-agents dashboard", ...task.next(checkpoint)].map((command) => `  ${command}`),
    );
    if (json) printJson(io, result);
    return result;
  } catch (error) {
    if (!hasCode(error, "ABORTED")) throw error;
    if (trained) throw interrupted(trained, "demo", interruption, json, io);
    const again =
      resumeFrom === undefined
        ? commandLine(["demo", ...(taskName === "polite" ? [] : ["--task", taskName])])
        : commandLine(["demo", "--resume", shown(resumeFrom, io)]);
    throw new CliExit(
      interruption.status(),
      `The demo was stopped before it began to learn. Begin again: ${again}`,
      "ABORTED",
    );
  } finally {
    interruption.done();
    if (place) releaseEmpty(place.dir);
    await agent.close();
  }
}
