/** Whole steps of GRPO on the torch engine: how much of them the GPU waits, and how long a task takes to be learnt. */
import { spawn } from "node:child_process";
import { performance } from "node:perf_hooks";
import { evaluate } from "stateset-agents";
import { MultiTurnAgent } from "../../packages/stateset-agents/src/agent/multi-turn-agent.ts";
import { trainingReward } from "../../packages/stateset-agents/src/cli/demo/demo-task.ts";
import {
  demoEnvironment,
  demoReward,
  demoSettings,
  politeTask,
} from "../../packages/stateset-agents/src/cli/demo/parts.ts";
import type { Policy } from "../../packages/stateset-agents/src/policy/policy.ts";
import { train } from "../../packages/stateset-agents/src/training/train.ts";

const agentOf = (policy: Policy, maxTokens = 64) =>
  new MultiTurnAgent({
    policy,
    systemPrompt: "You are a helpful customer support agent.",
    sampling: { temperature: 0.9, maxTokens },
  });

/** nvidia-smi's share of time in which a kernel ran, ten times a second. Undefined where there is none. */
function watchGpu(): { stop(): number | undefined } {
  const seen: number[] = [];
  const child = spawn("nvidia-smi", ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--loop-ms=100"], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  child.on("error", () => {});
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    seen.push(...text.split("\n").filter(Boolean).map(Number));
  });
  return {
    stop() {
      child.kill();
      return seen.length === 0 ? undefined : seen.reduce((sum, value) => sum + value, 0) / seen.length / 100;
    },
  };
}

/** How long the worker had nothing to do, because Node had asked it for nothing. */
function watchCalls(policy: Policy): { idleMs(): number } {
  let [running, idle, since] = [0, 0, performance.now()];
  const watched = ["sample", "forward", "backward", "step"] as const;
  for (const name of watched) {
    const call = policy[name].bind(policy) as (...args: unknown[]) => Promise<unknown>;
    Object.assign(policy, {
      [name]: async (...args: unknown[]) => {
        if (running++ === 0) idle += performance.now() - since;
        try {
          return await call(...args);
        } finally {
          if (--running === 0) since = performance.now();
        }
      },
    });
  }
  return { idleMs: () => idle + (running === 0 ? performance.now() - since : 0) };
}

/**
 * Steps of GRPO, after some in which programs are compiled: the share of time in which Node had asked the worker for nothing, and the one in
 * which the GPU computed nothing by nvidia-smi, which also counts the worker's own Python.
 */
export async function idleShare(policy: Policy, { steps = 24, warm = 12, groupsPerStep = 8, maxTokens = 128 } = {}) {
  const calls = watchCalls(policy);
  let watching: ReturnType<typeof watchGpu> | undefined;
  let [begun, before] = [0, 0];
  let [rolloutMs, updateMs] = [0, 0];
  const onStepEnd = ({ step, timing }: { step: number; timing: { rolloutMs: number; updateMs: number } }) => {
    if (step > warm) {
      rolloutMs += timing.rolloutMs;
      updateMs += timing.updateMs;
    }
    if (step !== warm) return;
    begun = performance.now();
    before = calls.idleMs();
    watching = watchGpu();
  };
  await train({
    agent: agentOf(policy, maxTokens),
    environment: demoEnvironment({ heldOut: false }),
    reward: demoReward(),
    ...{ dir: false, steps, groupsPerStep, groupSize: 16, learningRate: 1e-6, callbacks: [{ onStepEnd }] },
  });
  const elapsed = performance.now() - begun;
  const busy = watching?.stop();
  const perStep = (ms: number) => ms / 1000 / (steps - warm);
  return {
    ...{ secondsPerStep: perStep(elapsed), rollout: perStep(rolloutMs), update: perStep(updateMs) },
    idleWhileNodeWorks: (calls.idleMs() - before) / elapsed,
    ...(busy !== undefined && { idle: 1 - busy }),
  };
}

/** Seconds of training until held-out conversations of the demo's task get `target`, evaluations not counted. */
export async function secondsToReward(policy: Policy, { target = 0.9, most = 40, seed = 1 } = {}) {
  const agent = agentOf(policy);
  const heldOut = async () => {
    const environment = demoEnvironment({ heldOut: true });
    const { reward } = await evaluate({ agent, environment, reward: demoReward(), samples: 4, seed });
    return reward.mean;
  };
  const before = await heldOut();
  let reward = before;
  let [seconds, steps] = [0, 0];
  let begun = performance.now();
  const onStepEnd = async ({ step, stop }: { step: number; stop: (reason: string) => void }) => {
    seconds += (performance.now() - begun) / 1000;
    steps = step;
    if (step % 2 === 0) reward = await heldOut();
    if (reward >= target) stop("It is learnt.");
    begun = performance.now();
  };
  const { checkpoint: _, trajectories: __, ...settings } = demoSettings;
  await train({
    ...settings,
    agent,
    environment: demoEnvironment({ heldOut: false }),
    reward: demoReward(),
    ...{ dir: false, steps: most, schedule: "constant", seed, callbacks: [{ onStepEnd }] },
  });
  return { before, reward, steps, seconds, reached: reward >= target };
}

/** The demo as it is, with its reward or with the sign flipped: the mean reward of the first and the last three steps, by the reward as it is. */
export async function demoRun(policy: Policy, seed: number, kind: "polite" | "flipped") {
  const { run } = await train({
    agent: agentOf(policy),
    environment: politeTask.training(),
    reward: trainingReward(politeTask, kind),
    ...politeTask.settings,
    ...{ seed, dir: false },
  });
  const rewards = run.metrics.map(({ reward = 0 }) => (kind === "flipped" ? -reward : reward));
  const mean = (some: readonly number[]) => some.reduce((sum, one) => sum + one, 0) / some.length;
  return { first: mean(rewards.slice(0, 3)), last: mean(rewards.slice(-3)) };
}
