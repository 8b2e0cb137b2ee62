import { starterModelPath } from "@stateset-agents/starter-model";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isAbort } from "../abort.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { evaluate } from "../evaluation/evaluate.ts";
import { loadNativePolicy } from "../policy/native/load.ts";
import type { NativePolicy } from "../policy/native/native-policy.ts";
import type { Policy } from "../policy/policy.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import { harvestBestOfN } from "../supervised/best-of-n.ts";
import { train } from "../training/train.ts";

const environment = new ConversationEnvironment({
  scenarios: ["a", "b", "c", "d"].map((id) => ({ id, userResponses: ["Tell me a long story.", "Go on."] })),
});
const reward = rewardFunction(({ turns }) => turns.length);
const conversations = 32;

/** The starter model, watched: aborts at the 40th token and notes where the engine stood. */
function watched(policy: NativePolicy) {
  const stop = new AbortController();
  const seen = { tokens: 0, steps: 0, running: 0 };
  const sample: Policy["sample"] = async (requests, options = {}) => {
    seen.running++;
    try {
      return await policy.sample(requests, {
        ...options,
        onToken() {
          if (++seen.tokens !== 40) return;
          seen.steps = policy.stats().steps;
          stop.abort();
        },
      });
    } finally {
      seen.running--;
    }
  };
  const agent = new MultiTurnAgent({
    policy: Object.create(policy, { sample: { value: sample } }) as Policy,
    // Nothing ends by itself.
    sampling: { maxTokens: 400, minTokens: 400 },
  });
  return { agent, seen, signal: stop.signal };
}

describe("an abort acts within a decoding step and leaves nothing running", { timeout: 120_000 }, () => {
  let policy: NativePolicy;
  beforeAll(async () => {
    policy = await loadNativePolicy({ dir: starterModelPath });
  });
  afterAll(() => policy.close());

  /** At most the decoding step under way when the signal fires, and one that begins before the engine hears of it. */
  const settled = (seen: ReturnType<typeof watched>["seen"]) => {
    const { running, waiting, steps } = policy.stats();
    expect({ calls: seen.running, running, waiting }).toEqual({ calls: 0, running: 0, waiting: 0 });
    expect(seen.steps).toBeGreaterThan(0);
    expect(steps - seen.steps).toBeLessThanOrEqual(2);
  };

  it("in evaluate()", async () => {
    const { agent, seen, signal } = watched(policy);
    const samples = conversations / 4;
    await expect(evaluate({ agent, environment, reward, samples, signal })).rejects.toSatisfy(isAbort);
    settled(seen);
  });

  it("in harvestBestOfN()", async () => {
    const { agent, seen, signal } = watched(policy);
    await expect(harvestBestOfN({ agent, environment, reward, n: conversations / 4, signal })).rejects.toSatisfy(
      isAbort,
    );
    settled(seen);
  });

  it("in the rollouts of train(), which ends as interrupted", async () => {
    const { agent, seen, signal } = watched(policy);
    const { run } = await train({ agent, environment, reward, signal, steps: 3, dir: false });
    expect(run).toMatchObject({ status: "interrupted", steps: 0 });
    settled(seen);
  });

  it("in an evaluation of train(), and while an environment or a reward hangs", async () => {
    const heldOut = environment.scenarios.slice(0, 2);
    const { seen, ...early } = watched(policy);
    const { run } = await train({
      ...early,
      environment,
      reward,
      heldOut,
      steps: 1,
      dir: false,
      evaluation: { samples: 8 },
    });
    expect(run).toMatchObject({ status: "interrupted", steps: 0 });
    settled(seen);

    let hung: () => void;
    const hangs = () => {
      hung();
      return new Promise<never>(() => {});
    };
    const hanging = new ConversationEnvironment({
      scenarios: [{ id: "a", userResponses: ["Hi.", "Go on."] }],
      endWhen: [hangs],
    });
    for (const parts of [
      { environment: hanging, reward },
      { environment, reward: rewardFunction({ name: "never" }, hangs) },
    ]) {
      const brief = new MultiTurnAgent({ policy, sampling: { maxTokens: 4 } });
      const stop = new AbortController();
      const reached = new Promise<void>((resolve) => {
        hung = resolve;
      });
      const evaluation = evaluate({ ...parts, agent: brief, samples: 2, signal: stop.signal });
      await reached;
      stop.abort();
      await expect(evaluation).rejects.toSatisfy(isAbort);
    }
  });
});
