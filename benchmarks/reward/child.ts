/**
 * The processes that main.ts starts, bundled for plain Node so that no compiling is measured:
 *   ours '{"seed","threads","gradients"}'   trains until the reward is reached and prints a Training as JSON
 *   rewards '{"threads"}'       computes rewards for trl_peer.py: a line of JSON in, a line out
 */
import { createInterface } from "node:readline";
import { MultiTurnAgent, type TrajectoryGroup, train } from "stateset-agents";
import { demoAgent } from "../../packages/stateset-agents/src/cli/demo/parts.ts";
import { createReferenceScorer } from "../../packages/stateset-agents/src/reward/reference-scorer.ts";
import { type GroupTokens, leastWork, type ModelWork, reachedAt, type Training } from "./measure.ts";
import { environment, maxSteps, type Reply, reward, rewardsOf, settings, target, window } from "./task.ts";

/** Of the starter model: 8 layers of width 320, 160 for keys and for values, 864 inside; 8,192 tokens. */
const starterWork: ModelWork = { layers: 8 * (2 * 320 * 320 + 2 * 320 * 160 + 3 * 320 * 864), output: 8192 * 320 };

interface Asked {
  threads?: number;
  gradients?: "bf16";
}

/** The demo's, with these options. */
function agentOf(asked: Asked): MultiTurnAgent {
  const { systemPrompt, sampling } = demoAgent().options;
  return new MultiTurnAgent({ systemPrompt, sampling, ...asked });
}

const cpuSeconds = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

const [what, given = "{}"] = process.argv.slice(2);
const { seed = 1, ...asked } = JSON.parse(given) as Asked & { seed?: number };
if (what === "ours") await ours();
else await serveRewards();

async function ours(): Promise<void> {
  const agent = agentOf(asked);
  await agent.initialize();
  const setupSeconds = performance.now() / 1000;
  const rewards: number[] = [];
  let begun: { cpu: number; wall: number } | undefined;
  let ended = { cpu: 0, wall: 0 };
  let [tokens, replies, rolloutMs, updateMs, multiplyAdds] = [0, 0, 0, 0, 0];
  await train({
    ...settings,
    agent,
    environment: environment(),
    reward: reward(),
    steps: maxSteps,
    seed,
    dir: false,
    callbacks: {
      onStepStart() {
        begun ??= { cpu: cpuSeconds(), wall: performance.now() };
      },
      onStepEnd({ metrics, timing, groups, stop }) {
        ended = { cpu: cpuSeconds(), wall: performance.now() };
        rewards.push(metrics.reward!);
        tokens += metrics.sampledTokens!;
        replies += metrics.replies!;
        multiplyAdds += leastWork(groups.map(tokensOf), starterWork);
        rolloutMs += timing.rolloutMs;
        updateMs += timing.updateMs;
        if (reachedAt(rewards, target, window) !== undefined) stop("the reward is reached");
      },
    },
  });
  await agent.close();
  const training: Training = {
    rewards,
    cpuSeconds: ended.cpu - begun!.cpu,
    seconds: (ended.wall - begun!.wall) / 1000,
    totalCpuSeconds: cpuSeconds(),
    setupSeconds,
    meanTokens: tokens / replies,
    samplingShare: rolloutMs / (rolloutMs + updateMs),
    multiplyAdds,
  };
  console.log(JSON.stringify(training));
}

/** Replies of a group share their prompt and nothing else. */
function tokensOf({ trajectories }: TrajectoryGroup): GroupTokens {
  const chains = trajectories.flatMap((one) => one.chains);
  const sampled = chains.map(({ turn }) => turn.filter((one) => one >= 0).length);
  return { prompt: chains[0]!.turn.findIndex((one) => one >= 0), replies: sampled.reduce((a, b) => a + b, 0) };
}

async function serveRewards(): Promise<void> {
  const agent = agentOf(asked);
  await agent.initialize();
  const { tokenizer } = agent.policy;
  const parts = { reward: reward(), scorer: createReferenceScorer(agent.policy), tokenizer };
  let before = cpuSeconds();
  console.log(JSON.stringify({ ready: true, cpuSeconds: before }));
  for await (const line of createInterface({ input: process.stdin })) {
    const rewards = await rewardsOf(JSON.parse(line) as Reply[], parts);
    const now = cpuSeconds();
    console.log(JSON.stringify({ rewards, cpuSeconds: now - before }));
    before = now;
  }
  await parts.scorer.close();
  await agent.close();
}
