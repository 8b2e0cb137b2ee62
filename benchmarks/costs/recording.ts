/** What it costs to write the conversations of a step down, with the numbers of every token, against the step of the demo. */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TrajectoryGroup, toConversationRecord, train } from "stateset-agents";
import { writeTrajectories } from "stateset-agents/telemetry";
import {
  demoAgent,
  demoEnvironment,
  demoReward,
  demoSettings,
} from "../../packages/stateset-agents/src/cli/demo/parts.ts";
import { LearntTokens } from "../../packages/stateset-agents/src/learning/learnt-tokens.ts";
import { sequencesOf } from "../../packages/stateset-agents/src/learning/sequence.ts";

const steps = 5;

export interface RecordingCost {
  groups: number;
  /** Milliseconds by the clock, the disk's included, and of processor time; each as a share of a whole step. */
  wall: number;
  wallShare: number;
  cpu: number;
  cpuShare: number;
  jsonlBytes: number;
  binBytes: number;
}

/** Steps of the demo that write nothing, then what writing each of them takes. Medians. */
export async function measureRecording(): Promise<{ step: Cost; costs: RecordingCost[] }> {
  const agent = demoAgent();
  const played: TrajectoryGroup[][] = [];
  const stepCosts: Cost[] = [];
  let began = now();
  await train({
    ...demoSettings,
    agent,
    environment: demoEnvironment({ heldOut: false }),
    reward: demoReward(),
    dir: false,
    seed: 1,
    steps,
    callbacks: {
      onStepStart: () => {
        began = now();
      },
      onStepEnd: ({ groups }) => {
        stepCosts.push(since(began));
        played.push([...groups]);
      },
    },
  });
  await agent.close();
  const step = medians(stepCosts.slice(1));
  const costs = [2, demoSettings.groupsPerStep].map((groups) => costOf(played.slice(1), groups, step));
  return { step, costs };
}

function costOf(played: readonly TrajectoryGroup[][], groups: number, step: Cost): RecordingCost {
  const dir = mkdtempSync(join(tmpdir(), "recording-"));
  try {
    const times = [...played, ...played, ...played].map((one, i) => {
      const began = now();
      record(dir, i, one, groups);
      return since(began);
    });
    const { wall, cpu } = medians(times.slice(played.length));
    const bytes = (end: string) => statSync(join(dir, "trajectories", `step-00000${played.length}.${end}`)).size;
    const sizes = { jsonlBytes: bytes("jsonl"), binBytes: bytes("bin") };
    return { groups, wall, wallShare: wall / step.wall, cpu, cpuShare: cpu / step.cpu, ...sizes };
  } finally {
    rmSync(dir, { recursive: true });
  }
}

/** As train() does it, with the numbers of sampling where it has those of its passes. */
function record(dir: string, step: number, played: readonly TrajectoryGroup[], count: number): void {
  const groups = played.slice(0, count);
  const learnt = new LearntTokens(groups.flatMap(({ trajectories }) => trajectories));
  const sequences = sequencesOf(played);
  learnt.begin(
    sequences,
    sequences.map(({ old }) => ({ advantages: old })),
  );
  for (const sequence of sequences)
    learnt.score(sequence, { ...sequence, logprobs: sequence.old, entropy: sequence.old });
  const conversations = groups.flatMap(({ id: group, trajectories }) =>
    trajectories.map((trajectory) => ({
      record: toConversationRecord(trajectory, { group, step }),
      chains: trajectory.chains,
      learnt: learnt.of(trajectory),
    })),
  );
  writeTrajectories(dir, step, conversations, { tokens: true });
}

/** In milliseconds. */
interface Cost {
  wall: number;
  cpu: number;
}

function now(): Cost {
  const { user, system } = process.cpuUsage();
  return { wall: performance.now(), cpu: (user + system) / 1000 };
}

function since(began: Cost): Cost {
  const { wall, cpu } = now();
  return { wall: wall - began.wall, cpu: cpu - began.cpu };
}

function medians(costs: readonly Cost[]): Cost {
  return { wall: median(costs.map(({ wall }) => wall)), cpu: median(costs.map(({ cpu }) => cpu)) };
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}
