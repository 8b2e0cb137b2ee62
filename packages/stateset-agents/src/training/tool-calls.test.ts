/** Replies that were taken apart into tool calls, and would be printed otherwise than they were sampled. */
import { describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { Trajectory, Turn } from "../conversation/trajectory.ts";
import { Environment, type EnvironmentState, type StepResult } from "../environment/environment.ts";
import type { Scenario } from "../environment/scenario.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { FunctionReward } from "../test-support/table-training.ts";
import { train } from "./train.ts";

/** Makes a call of every reply that calls nothing: neither name nor arguments were ever sampled. */
class CallingAgent extends MultiTurnAgent {
  protected override afterGeneration(reply: Turn): Turn {
    const call = { name: "look_up", arguments: '{"order": "1234", "why": "asked"}' };
    return { ...reply, content: "", tool_calls: [{ id: "call-1", type: "function", function: call }] };
  }
}

/** Answers every call with a result, and is done after the third reply. */
class ToolEnvironment extends Environment {
  readonly scenarios: readonly Scenario[] = [{ id: "order" }];

  override async reset(): Promise<EnvironmentState> {
    const turns: Turn[] = [{ role: "user", content: "Where is my order late" }];
    return { scenario: this.scenarios[0]!, turns, replies: 0, seed: 0, done: false, metadata: {} };
  }

  override async step(state: EnvironmentState, action: Turn): Promise<StepResult> {
    const result: Turn = { role: "tool", content: "order late", tool_call_id: "call-1" };
    const replies = state.replies + 1;
    const done = replies === 3;
    const turns = [...state.turns, action, ...(done ? [] : [result])];
    return { state: { ...state, turns, replies, done }, done, ...(!done && { userTurn: result }) };
  }
}

describe.each<[string, () => MultiTurnAgent]>([
  [
    "the table policy",
    () => new CallingAgent({ policy: createTablePolicy({ spread: 1 }), sampling: { maxTokens: 6 } }),
  ],
  ["the starter model", () => new CallingAgent({ sampling: { maxTokens: 12 }, threads: 1 })],
])("a conversation of hand-built tool calls with %s", (_, open) => {
  it("is one chain of the sampled ids, with a first ratio of exactly 1", async () => {
    const agent = open();
    await agent.initialize();
    const { policy } = agent;
    const sampled: string[] = [];
    const { sample } = policy;
    policy.sample = async (...args) => {
      const samples = await sample.apply(policy, args);
      sampled.push(...samples.map(({ tokens }) => tokens.join()));
      return samples;
    };
    const trajectories: Trajectory[] = [];
    const { run } = await train({
      agent,
      environment: new ToolEnvironment(),
      reward: new FunctionReward((turns) =>
        turns.map(({ sampled }) => sampled?.text.length ?? 0).reduce((a, b) => a + b),
      ),
      dir: false,
      steps: 2,
      groupsPerStep: 1,
      groupSize: 4,
      learningRate: 1e-3,
      callbacks: [
        { onRollouts: ({ groups }) => void trajectories.push(...groups.flatMap((group) => group.trajectories)) },
      ],
    });
    expect(trajectories).toHaveLength(8);
    for (const { chains, turns } of trajectories) {
      expect(chains).toHaveLength(1);
      const { tokens, turn, started } = chains[0]!;
      expect(started).toBe("first-prompt");
      for (const index of [1, 3, 5]) {
        const own = tokens.filter((_, i) => turn[i] === index);
        expect(sampled).toContain(own.join());
        expect(turns[index]!.sampled!.text).toBe(policy.tokenizer.decode(own, { skipSpecial: false }));
        expect(turns[index]!.content).toBe("");
      }
    }
    for (const metrics of run.metrics) expect(metrics.firstRatioMax).toBe(1);
    expect(run.metrics.some((metrics) => metrics.learnedConversations! > 0)).toBe(true);
    await agent.close();
  });
});
