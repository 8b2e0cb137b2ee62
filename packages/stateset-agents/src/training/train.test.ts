import { describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { isCut, type Turn } from "../conversation/trajectory.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import type { EnvironmentState } from "../environment/environment.ts";
import type { ConversationScenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import type { RunProgress } from "../run/callbacks.ts";
import {
  FunctionReward,
  gain,
  politeShare,
  quickRun,
  tableAgent,
  tableScenarios,
} from "../test-support/table-training.ts";
import { train } from "./train.ts";

const settings = quickRun;
const polite = new FunctionReward(politeShare);
const mean = (values: number[]) => values.reduce((a, b) => a + b, 0) / values.length;

describe("train", { timeout: 300_000 }, () => {
  it("raises the reward, and lowers what it measures when the sign is flipped", async () => {
    const curve = async (sign: number) => {
      const reward = new FunctionReward((turns) => sign * politeShare(turns));
      const { run } = await train({ ...settings, agent: tableAgent().agent, reward });
      return run.metrics.map((metrics) => sign * metrics.reward!);
    };
    expect(gain(await curve(1))).toBeGreaterThan(0.3);
    expect(gain(await curve(-1))).toBeLessThan(-0.1);
  });

  it("does not move a single weight when the reward is constant", async () => {
    const { agent, policy } = tableAgent();
    const before = Float32Array.from(policy.parameters);
    const { run } = await train({
      ...settings,
      agent,
      reward: new FunctionReward(() => 0.7),
      steps: 3,
      weightDecay: 0.1,
    });
    expect(policy.parameters).toEqual(before);
    expect(run.metrics.map((metrics) => metrics.learnedConversations)).toEqual([0, 0, 0]);
    expect(run.metrics.every((metrics) => metrics.constantGroups === 1)).toBe(true);
  });

  it("starts every step at an importance ratio of exactly 1, also after the policy has moved", async () => {
    const { run } = await train({
      ...settings,
      agent: tableAgent().agent,
      reward: polite,
      steps: 4,
      updatesPerRollout: 3,
      minibatches: 2,
      sampling: { temperature: 0.8 },
    });
    for (const metrics of run.metrics) expect(metrics.firstRatioMax).toBe(1);
    expect(run.metrics.at(-1)!.ratioMax).toBeGreaterThan(1);
  });

  it("has the clip in force with several updates per rollout", async () => {
    const unclipped = { epsilonLow: 0.999, epsilonHigh: 1e6 };
    const learningRate = 0.1;
    const lastKl = async (clip: object) => {
      const { agent } = tableAgent();
      const { run } = await train({
        ...settings,
        ...clip,
        agent,
        reward: polite,
        learningRate,
        steps: 4,
        updatesPerRollout: 6,
      });
      return { kl: mean(run.metrics.map((m) => m.approxKl!)), clipped: mean(run.metrics.map((m) => m.clipFraction!)) };
    };
    const with_ = await lastKl({});
    const without = await lastKl(unclipped);
    expect(with_.clipped).toBeGreaterThan(0.05);
    expect(without.clipped).toBeLessThan(0.001);
    expect(with_.kl).toBeLessThan(without.kl);
  });

  it("gives the same metrics and weights with the same seed, whatever the concurrency and token budget", async () => {
    const once = async (seed: number, concurrency: number, tokenBudget: number) => {
      const { agent, policy } = tableAgent();
      const { run } = await train({ ...settings, agent, reward: polite, steps: 4, seed, concurrency, tokenBudget });
      return { metrics: JSON.stringify(run.metrics), parameters: policy.parameters };
    };
    const first = await once(1, 64, 8192);
    expect(await once(1, 64, 8192)).toEqual(first);
    expect(await once(1, 1, 8192)).toEqual(first);
    expect((await once(2, 64, 8192)).metrics).not.toEqual(first.metrics);
    const split = await once(1, 64, 64);
    split.parameters.forEach((value, i) => {
      expect(value).toBeCloseTo(first.parameters[i]!, 4);
    });
  });

  it("marks for learning only what the policy sampled", async () => {
    const { agent, policy } = tableAgent();
    const before = Float32Array.from(policy.parameters);
    const said = new Set<number>();
    await train({
      ...settings,
      agent,
      reward: polite,
      steps: 1,
      callbacks: {
        onRollouts({ groups }) {
          for (const { chains } of groups.flatMap((group) => group.trajectories)) {
            for (const { tokens, learn } of chains) {
              tokens.forEach((_, i) => {
                if (learn[i] === 1) said.add(tokens[i - 1]!);
              });
            }
          }
        },
      },
    });
    // A row of the table is moved by predictions made after its token: those of user words never are.
    const size = policy.model.vocabSize;
    const moved = new Set<number>();
    before.forEach((value, i) => {
      if (value !== policy.parameters[i] && i < size * size) moved.add(Math.floor(i / size));
    });
    expect([...moved].every((row) => said.has(row))).toBe(true);
    expect(moved.has(policy.idOf("<user>"))).toBe(false);
    expect(moved.has(policy.idOf("<assistant>"))).toBe(true);
  });

  it("measures the KL from the model each run started from, and from the renewed one where that is asked for", async () => {
    const { agent } = tableAgent();
    const kl = { coefficient: 0.01 };
    const klOf = async (options: object) =>
      (await train({ ...settings, agent, reward: polite, steps: 3, kl, ...options })).run.metrics.map((m) => m.kl!);
    const first = await klOf({});
    // The first update of a run is made at its reference. Were it that of the run before, the KL would not start at 0.
    const second = await klOf({});
    for (const run of [first, second]) {
      expect(run[0]).toBe(0);
      expect(run[2]).toBeGreaterThan(0.001);
    }
    expect(await klOf({ kl: { ...kl, renewEvery: 1 } })).toEqual([0, 0, 0]);
    await expect(klOf({ kl: { renewEvery: 1 } })).rejects.toThrow(/kl.renewEvery has nothing to renew/);
  });

  it("learns nothing from conversations cut at the token limit with maskTruncated, and compares with them all the same", async () => {
    const once = async (maskTruncated: boolean) => {
      const { agent, policy } = tableAgent();
      const cut: boolean[] = [];
      const { run } = await train({
        ...settings,
        agent,
        maskTruncated,
        steps: 1,
        maxTurns: 1,
        sampling: { maxTokens: 12 },
        // What is cut gets the best reward: with the mask, the rest is below the mean of its group and only unlearnt.
        reward: new FunctionReward((turns) => (isCut({ turns, ended: "done" }) ? 1 : 0)),
        callbacks: {
          onRollouts({ groups }) {
            for (const { trajectories } of groups) cut.push(...trajectories.map(isCut));
          },
        },
      });
      return { learned: run.metrics[0]!.learnedConversations, cut, parameters: Float32Array.from(policy.parameters) };
    };
    const [plain, masked] = [await once(false), await once(true)];
    expect(masked.cut).toEqual(plain.cut);
    const whole = masked.cut.filter((own) => !own).length;
    expect(whole).toBeGreaterThan(0);
    expect(whole).toBeLessThan(32);
    expect(masked.learned).toBeGreaterThan(0);
    expect(masked.learned).toBeLessThanOrEqual(whole);
    expect(plain.learned).toBeGreaterThan(masked.learned!);
    expect(masked.parameters).not.toEqual(plain.parameters);
  });

  it("uses the environment's own rewards when no reward is given", async () => {
    class Paying extends ConversationEnvironment {
      override async step(state: EnvironmentState<ConversationScenario>, action: Turn) {
        return { ...(await super.step(state, action)), reward: action.content.includes("please") ? 1 : 0 };
      }
    }
    const environment = new Paying({ scenarios: tableScenarios, maxTurns: 3 });
    const { run } = await train({ ...settings, environment, agent: tableAgent().agent });
    expect(gain(run.metrics.map((m) => m.reward!))).toBeGreaterThan(0.3);
  });

  it("evaluates on held-out scenarios before, during and after, on parts that do not overlap", async () => {
    const seen: string[] = [];
    const heldOut = Array.from({ length: 10 }, (_, i) => ({
      id: `held-${i}`,
      userResponses: ["help card", "order no"],
    }));
    const { run } = await train({
      ...settings,
      agent: tableAgent().agent,
      reward: polite,
      heldOut,
      evaluation: { every: 5, samples: 4 },
      callbacks: { onEvaluation: ({ step, set }) => void seen.push(`${step} ${set}`) },
    });
    expect(seen).toEqual(["0 report", "0 selection", "5 selection", "10 selection", "10 report"]);
    const { before, after } = run.evaluation!;
    expect(before.reward.count).toBe(5);
    expect(after!.reward.low).toBeGreaterThan(before.reward.high!);
    expect(run.best).not.toBeNull();
  });

  it("stops early when the target is reached", async () => {
    const { run } = await train({
      ...settings,
      agent: tableAgent().agent,
      reward: polite,
      heldOut: [{ id: "held", userResponses: ["help card"] }],
      evaluation: { every: 1 },
      earlyStopping: { target: 0.5 },
      steps: 30,
    });
    expect(run.status).toBe("stopped-early");
    expect(run.reason).toContain("target");
    expect(run.steps).toBeLessThan(30);
  });

  it("refuses to stop early by evaluations that are never made", async () => {
    const heldOut = [{ id: "held", userResponses: ["help card"] }];
    for (const own of [{}, { heldOut, evaluation: { every: 0 } }]) {
      const { agent, policy } = tableAgent();
      const run = train({ ...settings, agent, reward: polite, earlyStopping: { patience: 2 }, ...own });
      await expect(run).rejects.toMatchObject({
        code: "INVALID_OPTION",
        message: expect.stringMatching(/^earlyStopping .*no evaluations.*heldOut/s),
      });
      expect(policy.calls.sample).toBe(0);
    }
  });

  it("tells what a stub is and learns nothing from it", async () => {
    const agent = new MultiTurnAgent({ stub: { replies: ["please wait", "ok"] } });
    const { run } = await train({ ...settings, agent, reward: polite, steps: 2 });
    expect(run.stub).toBe(true);
    expect(run.warnings.some((w) => w.kind === "stub")).toBe(true);
    expect(run.metrics.every((m) => m.stub === 1)).toBe(true);
    expect(run.finalDir).toBeUndefined();
  });

  it("tells how far an update is", async () => {
    const told: string[] = [];
    const onProgress = ({ phase, done, of }: RunProgress) => void (phase === "learning" && told.push(`${done}/${of}`));
    const { agent } = tableAgent();
    // A pass holds one conversation.
    await train({
      ...settings,
      agent,
      reward: polite,
      steps: 1,
      groupSize: 2,
      tokenBudget: 16,
      callbacks: { onProgress },
    });
    const of = Number(told.at(-1)!.split("/")[1]);
    expect(of).toBeGreaterThan(1);
    expect(told.slice(-of - 1)).toEqual(Array.from({ length: of + 1 }, (_, done) => `${done}/${of}`));
  });
});

describe("train's options", () => {
  const wrong = async (options: object) => {
    const error = await train({ ...settings, agent: tableAgent().agent, reward: polite, ...options } as never).catch(
      (e: unknown) => e,
    );
    expect(StatesetError.isInstance(error)).toBe(true);
    return error as StatesetError;
  };

  it.each([
    [{ learningrate: 1 }, /Unknown option "learningrate".*learningRate/],
    [{ groupsize: 4 }, /Unknown option "groupsize".*groupSize/],
    [{ groupsPerStep: 0 }, /groupsPerStep/],
    [{ groupSize: 1 }, /groupSize/],
    [{ evaluation: { evry: 2 } }, /Unknown option "evry" in train\(\)\.evaluation.*every/],
    [{ algorithm: "grop" }, /Unknown algorithm "grop".*grpo/],
    [{ algorithm: "grpo", overlongPenalty: 1 }, /overlongPenalty.*dapo/],
    [{ profile: "bold" }, /Unknown profile "bold"/],
    [{ episodes: 10 }, /steps.*episodes/],
    [{ sampling: { temperature: 0 } }, /temperature/],
  ])("refuses %o", async (options, message) => {
    const error = await wrong(options);
    expect(error.code).toBe("INVALID_OPTION");
    expect(error.message).toMatch(message);
  });
});
