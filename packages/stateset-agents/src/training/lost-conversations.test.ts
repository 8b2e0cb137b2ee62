/** Every way a conversation can come to nothing: it is written down as far as it got, with what became of it. */
import { beforeEach, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import type { EnvironmentState } from "../environment/environment.ts";
import type { ConversationScenario } from "../environment/scenario.ts";
import { defineHarness, type HarnessRun } from "../harness/harness.ts";
import { readLive } from "../run/read-live.ts";
import { readTrajectories } from "../run/trajectories.ts";
import { keptRun } from "../test-support/kept-run.ts";
import { ask, type Given } from "../test-support/plain-client.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { FunctionReward, politeShare, tableScenarios } from "../test-support/table-training.ts";
import { train } from "./train.ts";
import type { TrainOptions } from "./train-options.ts";

let dir: string;
beforeEach(() => {
  dir = temporaryFolder();
});

/** The first step of a run, of which everything is written. The run may fail: what it was is written before. */
async function firstStep(options: Partial<TrainOptions>) {
  const few = { groupsPerStep: 2, groupSize: 3, steps: 1, recall: false, trajectories: { every: 1, perStep: 9 } };
  await train(keptRun(dir, { ...few, ...options } as Partial<TrainOptions>)).catch(() => {});
  return { records: readTrajectories(dir, 1), live: readLive(dir) };
}

class Broken extends ConversationEnvironment {
  readonly #at: "reset" | "step" | "hangs";
  constructor(at: "reset" | "step" | "hangs") {
    super({ scenarios: tableScenarios.slice(0, 2), maxTurns: 3 });
    this.#at = at;
  }
  override async reset(scenario: ConversationScenario) {
    if (this.#at === "reset" && scenario.id === "scenario-0") throw new Error("no world");
    return super.reset(scenario);
  }
  override async step(state: EnvironmentState<ConversationScenario>, action: Turn) {
    if (state.scenario?.id === "scenario-0") {
      if (this.#at === "step") throw new Error("no answer");
      if (this.#at === "hangs") await new Promise(() => {});
    }
    return super.step(state, action);
  }
}

const failingReward = (score: (turns: readonly Turn[]) => number) =>
  new FunctionReward((turns, { scenario }) => (scenario?.id === "scenario-0" ? score(turns) : politeShare(turns)));

const two = { environment: new ConversationEnvironment({ scenarios: tableScenarios.slice(0, 2), maxTurns: 3 }) };

class Hooked extends MultiTurnAgent {
  protected override async afterGeneration(reply: Turn, messages: readonly Turn[]): Promise<Turn> {
    if (messages[0]!.content.startsWith("refund")) throw new Error("no hook");
    return reply;
  }
}

const asked = ({ scenario }: HarnessRun): Given[] => [
  { role: "user", content: (scenario as unknown as { say: string }).say },
];
const harnessOf = (fail: (access: HarnessRun) => Promise<unknown>) =>
  defineHarness({
    scenarios: [
      { id: "scenario-0", say: "refund order" },
      { id: "scenario-1", say: "card broken" },
    ],
    async run(access) {
      if (access.scenario.id === "scenario-0") return (await fail(access)) as number;
      return (await ask(access, asked(access))).content.length;
    },
  });

const throwing = () => {
  throw new Error("no verdict");
};

describe("a lost conversation is written with its failure where", { timeout: 60_000 }, () => {
  it.each<[string, () => Partial<TrainOptions>, object, spoken: boolean]>([
    ["the environment cannot begin", () => ({ environment: new Broken("reset") }), { during: "reset" }, false],
    [
      "the environment throws at a reply, and those are dropped",
      () => ({ environment: new Broken("step"), onFailure: "drop" }),
      { during: "step", message: "no answer" },
      true,
    ],
    [
      "the environment hangs",
      () => ({ environment: new Broken("hangs"), timeouts: { environmentMs: 30 } }),
      { during: "step", kind: "timeout" },
      true,
    ],
    [
      "the reward throws",
      () => ({ ...two, reward: failingReward(throwing) }),
      { during: "reward", message: "no verdict" },
      true,
    ],
    [
      "the reward is no number",
      () => ({ ...two, reward: failingReward(() => Number.NaN) }),
      { during: "reward", kind: "not-finite" },
      true,
    ],
    [
      "a hook of the agent throws",
      () => ({ ...two, agent: new Hooked({ policy: createTablePolicy(), sampling: { maxTokens: 6 } }) }),
      { during: "hook", message: expect.stringContaining("no hook") },
      false,
    ],
    [
      "a harness fails before it calls the model",
      () => ({ harness: harnessOf(async () => throwing()), reward: undefined }),
      { during: "harness", message: "no verdict" },
      false,
    ],
    [
      "a harness fails after it has called the model, and those are dropped",
      () => ({
        harness: harnessOf(async (access) => ask(access, asked(access)).then(throwing)),
        ...{ reward: undefined, onFailure: "drop" },
      }),
      { during: "harness" },
      true,
    ],
    [
      "a harness returns a reward that is none",
      () => ({
        harness: harnessOf(async (access) => ask(access, asked(access)).then(() => Number.NaN)),
        reward: undefined,
      }),
      { during: "reward", kind: "not-finite" },
      true,
    ],
  ])("%s", async (_, options, failure, spoken) => {
    const { records, live } = await firstStep(options() as Partial<TrainOptions>);
    const lost = records.filter(({ leftOut }) => leftOut === "lost");
    expect(lost.length).toBe(3);
    expect(records.length).toBe(6);
    for (const record of lost) {
      expect(record).toMatchObject({ scenarioId: "scenario-0", failure, step: 1 });
      expect(record.group).toMatch(/^s1-g[01]$/);
      expect(record).not.toHaveProperty("reward");
      expect(record.messages.some(({ role }) => role === "assistant")).toBe(spoken);
      const seen = live.find(({ id }) => id === record.id);
      expect(seen).toMatchObject({ failure: record.failure!.message, reward: null, messages: record.messages });
    }
    // What came through is beside them.
    for (const record of records.filter(({ leftOut }) => !leftOut)) expect(record).toHaveProperty("reward");
  });

  it("all of a step came to nothing, in the step that ends the run as well", async () => {
    const { records, live } = await firstStep({ ...two, reward: new FunctionReward(throwing) });
    expect(records.length).toBe(6);
    for (const record of records) expect(record).toMatchObject({ leftOut: "lost", failure: { message: "no verdict" } });
    expect(live.length).toBe(6);
    expect(live.every(({ failure }) => failure === "no verdict")).toBe(true);
  });

  it("not where the context was full: that is how it ended, and it counts", async () => {
    const agent = new MultiTurnAgent({
      policy: createTablePolicy({ contextLength: 16 }),
      sampling: { maxTokens: 6 },
    });
    const { records, live } = await firstStep({ ...two, agent });
    const full = records.filter(({ ended }) => ended === "context-full");
    expect(full.length).toBeGreaterThan(0);
    for (const record of full) {
      expect(record.leftOut).toBeUndefined();
      expect(live.find(({ id }) => id === record.id)).toMatchObject({
        ended: "context-full",
        failure: null,
        reward: record.reward!.score,
      });
    }
  });
});
