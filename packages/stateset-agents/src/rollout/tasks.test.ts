/** Tasks with a state, played by agents. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { Trajectory } from "../conversation/trajectory.ts";
import { oracleReply } from "../environment/domain/domain.ts";
import { retail } from "../environment/domain/retail/retail.ts";
import { TaskEnvironment } from "../environment/task-environment.ts";
import { openPolicy } from "../policy/open-policy.ts";
import type { Policy } from "../policy/policy.ts";
import { scripted } from "../test-support/scripted-policy.ts";
import { callFormats } from "../tool/format/choose-format.ts";
import { tool } from "../tool/tool.ts";
import { train } from "../training/train.ts";

let policy: Policy;
beforeAll(async () => {
  policy = await openPolicy({ threads: 1 });
});
afterAll(() => policy.close());

const print = (...calls: [string, object][]) =>
  callFormats.hermes.print(calls.map(([name, args]) => ({ name, arguments: JSON.stringify(args) })));
const own = tool({ name: "own", execute: () => "mine" });
const count = {
  name: "count",
  run: ({ n }: { n: number }) => ({ state: { n: n + 1 }, result: n + 1 }),
};
const counting = () =>
  new TaskEnvironment<{ n: number }>({
    tasks: [{ id: "a", prompt: "Count.", state: { n: 0 }, expect: { state: { n: 1 }, said: ["done"] } }],
    tools: [count],
  });

async function step(environment: TaskEnvironment, replies: readonly string[], tools: readonly (typeof own)[] = []) {
  let at = 0;
  const trajectories: Trajectory[] = [];
  const speaking = scripted(policy, () => ({ text: replies[at++ % replies.length]! }));
  const agent = new MultiTurnAgent({ policy: speaking, ...(tools.length > 0 && { tools }) });
  const { run } = await train({
    ...{ agent, environment, steps: 1, groupsPerStep: 1, groupSize: 2, dir: false, seed: 1, concurrency: 1 },
    callbacks: { onRollouts: ({ groups }) => void trajectories.push(...groups.flatMap((one) => one.trajectories)) },
  });
  return { trajectories, metrics: run.metrics[0]! };
}

const answers = ({ turns }: Trajectory) =>
  turns.filter(({ role }) => role === "tool").map(({ name, content }) => [name, content.slice(0, 24)]);

describe("an agent in a task with a state", () => {
  it("is rewarded for how it ended, and its trajectory holds the state", async () => {
    const { trajectories, metrics } = await step(counting(), [print(["count", {}]), "Done."]);
    for (const { turns, chains, metadata, reward, ended } of trajectories) {
      expect(chains).toHaveLength(1);
      expect([reward.score, ended]).toEqual([1, "done"]);
      expect(metadata).toMatchObject({ success: true, state: { n: 1 }, writes: [{ turn: 1, tool: "count" }] });
      expect(turns.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
      expect(turns[2]!.metadata).toEqual({ stateHash: metadata.stateHash });
    }
    expect(metrics).toMatchObject({ toolCalls: 2 });
  });

  it("without tools of its own has every call answered by the task, also one of a tool that there is not", async () => {
    const { trajectories, metrics } = await step(counting(), [print(["nothing", {}], ["count", {}]), "Done."]);
    for (const one of trajectories) {
      expect(answers(one)).toEqual([
        ["nothing", '{"error":"unknown_tool",'],
        ["count", "1"],
      ]);
    }
    expect(metrics["toolFailures/unknown_tool"]).toBe(2);
  });

  it("with tools of its own answers those itself, once, beside the task's", async () => {
    const { trajectories } = await step(counting(), [print(["own", {}], ["count", {}]), "Done."], [own]);
    for (const one of trajectories) {
      expect(answers(one)).toEqual([
        ["count", "1"],
        ["own", "mine"],
      ]);
      expect(one.metadata.success).toBe(true);
    }
  });
});

it("fits the starter model: the oracle's whole conversations have room in its context, at every level", async () => {
  for (const level of [1, 2, 3] as const) {
    const environment = retail({ level, tasks: 8 });
    for (const task of environment.scenarios) {
      let state = await environment.reset(task, { seed: 0 });
      while (!state.done) ({ state } = await environment.step(state, oracleReply(state)));
      const system = { role: "system" as const, content: `You are a shop assistant.\n\n${task.context}` };
      const shown = { tools: [...environment.tools(state)!], addGenerationPrompt: false };
      const { tokens } = policy.tokenizer.extend(undefined, [system, ...state.turns], shown);
      expect(tokens.length).toBeLessThan(policy.model.contextLength - 100);
    }
  }
});
