/** A reward's time limit is for what the reward itself does, not for its turn at a model that all conversations share. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createJudge } from "../endpoint/judge.ts";
import { evaluate } from "../evaluation/evaluate.ts";
import type { Reference } from "../policy/policy.ts";
import { NeuralReward } from "../preference/neural-reward.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import { judgeReward } from "../reward/judge/judge-reward.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { tableAgent, tableEnvironment } from "../test-support/table-training.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => void vi.useRealTimers());

const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));
/** As an engine does it: one at a time, each after those before it. */
function busy(ms: number) {
  let last: Promise<unknown> = Promise.resolve();
  return () => {
    last = last.then(() => sleep(ms));
    return last;
  };
}

/** Four scenarios of two conversations; a pass of the reference takes 50 s. */
async function rewarded(reward: RewardFunction) {
  const { agent, policy } = tableAgent();
  const turn = busy(50_000);
  const { reference } = policy;
  policy.reference = async (of) => {
    const made = await reference.call(policy, of);
    const logprobs = async (...args: Parameters<Reference["logprobs"]>) => {
      await turn();
      return made.logprobs(...args);
    };
    return { ...made, logprobs };
  };
  const result = evaluate({ agent, environment: tableEnvironment(), samples: 2, seed: 1, reward });
  let settled = false;
  result.catch(() => {}).finally(() => (settled = true));
  while (!settled) {
    await new Promise(setImmediate);
    await vi.advanceTimersByTimeAsync(5_000);
  }
  return result;
}

describe("the time limit of a reward", () => {
  it("leaves out the wait for scores", async () => {
    const reward = rewardFunction({ name: "curious" }, async ({ turns }, { score }) => {
      await sleep(20_000);
      const { length } = await score!(turns);
      await sleep(20_000);
      return length;
    });
    expect(await rewarded(reward)).toMatchObject({ lost: 0, reward: { count: 4 } });
  });

  it("counts what the reward does before and after it", async () => {
    const reward = rewardFunction({ name: "slow" }, async ({ turns }, { score }) => {
      await sleep(35_000);
      const { length } = await score!(turns);
      await sleep(35_000);
      return length;
    });
    await expect(rewarded(reward)).rejects.toThrow(/"slow" gave no answer within 60000 ms/);
  });

  it("leaves out the wait for other questions to a judge", async () => {
    const model = {
      id: "slow",
      async complete() {
        await sleep(25_000);
        return { text: '{"reason": "", "score": 7}' };
      },
    };
    const judge = createJudge({ model, concurrency: 1 });
    expect(await rewarded(judgeReward({ judge, rubric: "Good." }))).toMatchObject({ lost: 0 });
    expect(judge.stats()).toMatchObject({ failed: 0 });
  });

  it("leaves out a reward model's turns at its engine", async () => {
    const policy = createTablePolicy();
    await policy.addValueHead();
    const { forward } = policy;
    const turn = busy(40_000);
    policy.forward = async (...args) => {
      await turn();
      return forward.call(policy, ...args);
    };
    const reward = new NeuralReward(policy, { maxTokens: 100, mean: 0, deviation: 1 });
    expect(await rewarded(reward)).toMatchObject({ lost: 0 });
  });
});
