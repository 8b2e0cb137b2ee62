import { beforeAll, describe, expect, it } from "vitest";
import type { Trajectory } from "../conversation/trajectory.ts";
import type { StepOptions } from "../policy/policy.ts";
import type { TablePolicy } from "../test-support/table-policy.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { train } from "../training/train.ts";
import { ValueFunction } from "./value-function.ts";

let conversations: Trajectory[];

beforeAll(async () => {
  await train({
    agent: tableAgent().agent,
    environment: tableEnvironment(),
    reward: new FunctionReward(politeShare),
    dir: false,
    steps: 1,
    callbacks: {
      onRollouts({ groups }) {
        conversations = groups.flatMap((group) => group.trajectories);
      },
    },
  });
});

const sampled = ({ chains }: Trajectory) =>
  chains.flatMap(({ tokens, learn }) => [...tokens.keys()].filter((i) => learn[i] === 1).map((i) => tokens[i - 1]!));
const headOf = (policy: TablePolicy) => policy.parameters.subarray(policy.model.vocabSize ** 2);
const tableOf = (policy: TablePolicy) => Float32Array.from(policy.parameters.subarray(0, policy.model.vocabSize ** 2));

describe("ValueFunction", () => {
  it("predicts the value of the state before each sampled token, whatever the token budget", async () => {
    const { policy, agent } = tableAgent();
    headOf(policy).forEach((_, i, head) => {
      head[i] = i / 10;
    });
    const values = await new ValueFunction({ agent }).predict(conversations);
    expect(policy.model.valueHead).toBe(true);
    values.forEach((own, i) => {
      expect(own).toEqual(Float32Array.from(sampled(conversations[i]!), (before) => before / 10));
    });
    expect(await new ValueFunction({ policy, tokenBudget: 32 }).predict(conversations)).toEqual(values);
  });

  it("trains the head alone, and halves its error", async () => {
    const { policy } = tableAgent();
    const table = tableOf(policy);
    const values = new ValueFunction({ policy });
    const returns = conversations.map((c) => sampled(c).map(() => c.reward.score));
    const { losses } = await values.fit(conversations, returns, {
      dir: false,
      epochs: 10,
      learningRate: 0.05,
      batchSize: 8,
    });
    expect(losses.at(-1)).toBeLessThan(0.5 * losses[0]!);
    expect(tableOf(policy)).toEqual(table);
    const mean = returns.flat().reduce((a, b) => a + b, 0) / returns.flat().length;
    const predicted = (await values.predict(conversations)).flatMap((own) => [...own]);
    expect(predicted.reduce((a, b) => a + b, 0) / predicted.length).toBeCloseTo(mean, 1);
  });

  it("refuses conversations without a token to learn from instead of learning nothing", async () => {
    const { policy } = tableAgent();
    const unmarked = conversations.map((c) => ({
      ...c,
      chains: c.chains.map((chain) => ({ ...chain, learn: chain.learn.map(() => 0) })),
    }));
    await expect(new ValueFunction({ policy }).fit(unmarked, [], { dir: false })).rejects.toThrow(
      /no conversation with tokens/,
    );
  });

  it("lets the language model learn with it when asked to", async () => {
    const asked = async (trunk: boolean) => {
      const { policy } = tableAgent();
      const seen: { intoTrunk: boolean | undefined; scope: StepOptions["scope"] }[] = [];
      let intoTrunk: boolean | undefined;
      const { backward, step } = policy;
      policy.backward = (pass, derivatives) => {
        intoTrunk = derivatives.valuesIntoTrunk;
        return backward(pass, derivatives);
      };
      policy.step = (options) => {
        seen.push({ intoTrunk, scope: options.scope });
        return step(options);
      };
      const returns = conversations.map((c) => sampled(c).map(() => 1));
      await new ValueFunction({ policy }).fit(conversations, returns, { dir: false, trunk, batchSize: 64 });
      return seen;
    };
    expect(await asked(false)).toEqual([{ intoTrunk: false, scope: "value" }]);
    expect(await asked(true)).toEqual([{ intoTrunk: true, scope: "all" }]);
  });

  it("estimates advantages by turn (γ 0.99, λ 0.95) and by token (γ 1)", async () => {
    // V is 0 everywhere, so Â = (γλ)^(steps to the end)·reward.
    const { policy } = tableAgent();
    const one = conversations.find((c) => c.reward.score > 0)!;
    const { reward, chains } = one;
    const turns = chains.flatMap(({ turn, learn }) => [...turn].filter((_, i) => learn[i] === 1));
    const replies = [...new Set(turns)];
    expect(replies).toHaveLength(3);

    const [byTurn] = await new ValueFunction({ policy }).advantages([one]);
    turns.forEach((turn, t) => {
      const left = replies.length - 1 - replies.indexOf(turn);
      expect(byTurn!.advantages[t]).toBeCloseTo(reward.score * (0.99 * 0.95) ** left, 6);
    });
    expect(byTurn!.returns).toEqual(byTurn!.advantages);

    const [byToken] = await new ValueFunction({ policy, level: "token", gaeLambda: 0.9 }).advantages([one]);
    turns.forEach((_, t) => {
      expect(byToken!.advantages[t]).toBeCloseTo(reward.score * 0.9 ** (turns.length - 1 - t), 6);
    });
    const [discounted] = await new ValueFunction({ policy, level: "token", gamma: 0.5, gaeLambda: 1 }).advantages([
      one,
    ]);
    expect(discounted!.advantages.at(-3)).toBeCloseTo(reward.score / 4, 6);
  });

  it("names what is wrong", async () => {
    const { policy } = tableAgent();
    expect(() => new ValueFunction({ policy, gaelambda: 1 } as never)).toThrow('Did you mean "gaeLambda"?');
    const values = new ValueFunction({ policy });
    await expect(values.fit(conversations, [], { dir: false })).rejects.toMatchObject({
      code: "INVALID_DATA",
      message: /Conversation 0 has \d+ sampled tokens and 0 returns/,
    });
  });
});
