import type { Trajectory, TrajectoryGroup } from "../conversation/trajectory.ts";

export interface FakeConversation {
  reward: number;
  text?: string;
  parts?: Record<string, number>;
  /** Sampled tokens. */
  tokens?: number;
  /** -log p of each of them. */
  surprise?: number;
  /** The reply was cut at the token limit. */
  cut?: boolean;
}

/** A group as rollouts give it, made from what the monitor reads. For tests. */
export function fakeGroup(scenarioId: string, conversations: readonly FakeConversation[]): TrajectoryGroup {
  return {
    id: scenarioId,
    scenarioId,
    trajectories: conversations.map((one, i) => fakeTrajectory(scenarioId, i, one)),
  };
}

function fakeTrajectory(scenarioId: string, index: number, conversation: FakeConversation): Trajectory {
  const {
    reward,
    text = `reply number ${index} of ${scenarioId}`,
    parts = {},
    tokens = 20,
    surprise = 1,
    cut = false,
  } = conversation;
  return {
    id: `${scenarioId}-${index}`,
    scenarioId,
    turns: [
      { role: "user", content: `hello, this is ${scenarioId}` },
      { role: "assistant", content: text, sampled: { text, finishReason: cut ? "length" : "stop" } },
    ],
    chains: [
      {
        tokens: new Int32Array(tokens),
        logprobs: new Float32Array(tokens).fill(-surprise),
        learn: new Uint8Array(tokens).fill(1),
        turn: new Int32Array(tokens).fill(1),
      },
    ],
    reward: { score: reward, breakdown: parts },
    ended: "done",
    temperature: 1,
    stub: false,
    metadata: {},
  };
}
