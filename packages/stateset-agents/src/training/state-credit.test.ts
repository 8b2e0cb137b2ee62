/** Credit by state and calls that failed, from the turns of an environment to the update. */
import { describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { TrajectoryGroup, Turn } from "../conversation/trajectory.ts";
import { Environment, type EnvironmentState, type StepResult } from "../environment/environment.ts";
import { sequenceOf } from "../learning/sequence.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { FunctionReward, gain, politeShare, quickRun, tableAgent } from "../test-support/table-training.ts";
import { Recall } from "./recall.ts";
import { train } from "./train.ts";

/**
 * Three doors in a row, each opened by "please". Who does not say it stands where he stood; the state is the door. `tells` false: nobody
 * is told the state.
 */
class Doors extends Environment {
  readonly scenarios = [{ id: "doors" }, { id: "gates" }];
  readonly #tells: boolean;

  constructor(tells = true) {
    super();
    this.#tells = tells;
  }

  override async reset(scenario = this.scenarios[0]!, { seed = 0 } = {}): Promise<EnvironmentState> {
    const metadata = { door: 0 };
    return { scenario, turns: [this.#door(0)], replies: 0, seed, done: false, metadata };
  }

  override async step(state: EnvironmentState, action: Turn): Promise<StepResult> {
    const door = (state.metadata.door as number) + (action.content.includes("please") ? 1 : 0);
    const replies = state.replies + 1;
    const done = door === 3 || replies === 6;
    const userTurn = this.#door(door);
    const turns = [...state.turns, action, ...(done ? [] : [userTurn])];
    return { state: { ...state, turns, replies, done, metadata: { door } }, done, ...(!done && { userTurn }) };
  }

  #door(door: number): Turn {
    return {
      role: "user",
      content: ["refund order", "card broken", "order late", ""][door]!,
      ...(this.#tells && { metadata: { stateHash: `door-${door}` } }),
    };
  }
}

const through = (sign: number) => new FunctionReward((_, { metadata }) => (sign * (metadata!.door as number)) / 3);
const settings = { ...quickRun, environment: new Doors(), groupSize: 8, groupsPerStep: 2, recall: false } as const;

describe("credit: state", () => {
  it.each(["grpo", "dr-grpo", "bnpo", "dapo", "gspo-token", "cispo", "sapo", "trpo"] as const)(
    "lets the reward rise, and fall when it is flipped: %s",
    async (algorithm) => {
      const curve = async (sign: number) => {
        const own = { algorithm, credit: "state", ...(algorithm === "trpo" && { maxKl: 0.1 }) };
        const options = { ...settings, ...own, agent: tableAgent().agent, reward: through(sign) };
        const { run } = await train(options as never);
        for (const { sharedStates } of run.metrics) expect(sharedStates).toBeGreaterThan(0.5);
        expect(run.warnings).toEqual([]);
        return run.metrics.map(({ reward }) => sign * reward!);
      };
      expect(gain(await curve(1))).toBeGreaterThan(0.15);
      expect(gain(await curve(-1))).toBeLessThan(-0.15);
    },
  );

  it("is credit by episode to the bit, and says so, where the environment tells no states", async () => {
    const end = async (credit: "state" | "episode") => {
      const { agent, policy } = tableAgent();
      const environment = new Doors(false);
      const { run } = await train({ ...settings, environment, steps: 3, agent, reward: through(1), credit });
      const said = run.warnings.map(({ message }) => message);
      return { parameters: [...policy.parameters], said, shared: run.metrics.map(({ sharedStates }) => sharedStates) };
    };
    const [state, episode] = [await end("state"), await end("episode")];
    expect(state.parameters).toEqual(episode.parameters);
    expect(state.said).toEqual([expect.stringContaining("metadata.stateHash")]);
    expect(state.shared).toEqual([0, 0, 0]);
    expect([episode.said, episode.shared]).toEqual([[], [undefined, undefined, undefined]]);
  });

  it("goes by the turn before the reply: its state, who said it and what", async () => {
    const { groups } = await sampled(new Doors(), tableAgent().agent, {});
    const [trajectory] = groups[0]!.trajectories;
    const keys = (turns: Turn[]) => sequenceOf({ ...trajectory!, turns }, 0).states;
    const said = (own: Partial<Turn> = {}): Turn[] => [
      { role: "user", content: "refund order", metadata: { stateHash: "a" }, ...own },
      { role: "assistant", content: "please" },
    ];
    const [key] = Object.values(keys(said())!);
    expect(keys(said())).toEqual({ 1: key });
    for (const other of [{ role: "tool" }, { content: "card broken" }, { metadata: { stateHash: "b" } }] as const)
      expect(Object.values(keys(said(other))!)).not.toEqual([key]);
    // What it goes by is no order of its own: a longer way there is the same place.
    expect(keys([...said({ content: "hello" }), ...said()])).toMatchObject({ 3: key });
    expect(keys(said({ metadata: {} }))).toBeUndefined();
    expect(keys([said()[0]!, { role: "assistant", content: "please", given: true }])).toBeUndefined();
  });
});

/** Every reply is a call. */
class Caller extends MultiTurnAgent {
  protected override afterGeneration(reply: Turn): Turn {
    const call = { name: "open", arguments: "{}" };
    return { ...reply, tool_calls: [{ id: "call00001", type: "function", function: call }] };
  }
}

/** Two calls, of which those without "please" fail. */
class Gate extends Environment {
  readonly scenarios = [{ id: "gate" }];

  override async reset(scenario = this.scenarios[0]!): Promise<EnvironmentState> {
    return { scenario, turns: [{ role: "user", content: "help" }], replies: 0, seed: 0, done: false, metadata: {} };
  }

  override async step(state: EnvironmentState, action: Turn): Promise<StepResult> {
    const failed = !action.content.includes("please");
    const result: Turn = {
      role: "tool",
      content: failed ? "no" : "ok",
      tool_call_id: "call00001",
      ...(failed && { metadata: { toolFailure: "failed" } }),
    };
    const [replies, done] = [state.replies + 1, state.replies === 1];
    return { state: { ...state, turns: [...state.turns, action, result], replies, done }, done };
  }
}

/** One step, and the conversations it sampled. */
async function sampled(environment: Environment, agent: MultiTurnAgent, own: object) {
  const groups: TrajectoryGroup[] = [];
  const callbacks = {
    onRollouts: (rollouts: { groups: readonly TrajectoryGroup[] }) => void groups.push(...rollouts.groups),
  };
  const reward = new FunctionReward(
    (turns) => politeShare(turns) + turns.reduce((sum, { content }) => sum + content.length, 0),
  );
  const options = { ...quickRun, environment, steps: 1, groupSize: 8, groupsPerStep: 1, ...own };
  const { run } = await train({ ...options, agent, reward, callbacks });
  return { metrics: run.metrics, groups };
}

describe("maskFailedCalls", () => {
  const run = async (maskFailedCalls: boolean) => {
    const policy = createTablePolicy({ spread: 1 });
    const agent = new Caller({ policy, sampling: { maxTokens: 6 } });
    const { metrics, groups } = await sampled(new Gate(), agent, { maskFailedCalls });
    const all = groups.flatMap(({ trajectories }) => trajectories);
    return { metrics: metrics[0]!, failed: all.filter(allFailed).length, all: all.length, policy, groups };
  };
  const allFailed = ({ turns }: { turns: readonly Turn[] }) =>
    turns.every(({ role, metadata }) => role !== "tool" || metadata !== undefined);

  it("leaves out conversations whose every call failed, and counts them", async () => {
    const [on, off] = [await run(true), await run(false)];
    expect(on.failed).toBeGreaterThan(0);
    expect(on.failed).toBeLessThan(on.all);
    expect(on.metrics.maskedFailedCalls).toBe(on.failed);
    expect(on.metrics.learnedConversations).toBe(on.all - on.failed);
    expect(off.metrics).not.toHaveProperty("maskedFailedCalls");
    expect(off.metrics.learnedConversations).toBe(off.all);
    expect([...on.policy.parameters]).not.toEqual([...off.policy.parameters]);
  });

  it("keeps them out of what is remembered: nothing would be learnt from them", async () => {
    const { groups } = await run(false);
    const trajectories = groups[0]!.trajectories.filter(allFailed);
    const worse = trajectories.map((own) => ({ ...own, reward: { ...own.reward, score: -9 } }));
    const lost = { ...groups[0]!, trajectories: worse };
    for (const maskFailedCalls of [true, false]) {
      const recall = new Recall({ maskTruncated: false, maskFailedCalls });
      recall.note([{ ...groups[0]!, trajectories }]);
      expect(recall.joining(lost, 0)).toHaveLength(maskFailedCalls ? 0 : 1);
    }
  });
});
