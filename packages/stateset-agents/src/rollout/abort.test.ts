import { setTimeout as wait } from "node:timers/promises";
import { starterModelPath } from "@stateset-agents/starter-model";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isAbort } from "../abort.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { evaluate } from "../evaluation/evaluate.ts";
import { openPolicy } from "../policy/open-policy.ts";
import { defaultSampling, type Policy } from "../policy/policy.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import { harvestBestOfN } from "../supervised/best-of-n.ts";
import { train } from "../training/train.ts";

const environment = new ConversationEnvironment({
  scenarios: ["a", "b", "c", "d"].map((id) => ({ id, userResponses: ["Tell me a long story.", "Go on."] })),
});
const reward = rewardFunction(({ turns }) => turns.length);
const conversations = 32;

/** The starter model, watched: aborts at the 40th token and counts what is drawn, and what is still running, after that. */
function watched(policy: Policy) {
  const stop = new AbortController();
  const seen = { tokens: 0, late: 0, running: 0 };
  const sample: Policy["sample"] = async (requests, options = {}) => {
    seen.running++;
    try {
      return await policy.sample(requests, {
        ...options,
        onToken() {
          if (stop.signal.aborted) seen.late++;
          else if (++seen.tokens === 40) stop.abort();
        },
      });
    } finally {
      seen.running--;
    }
  };
  const agent = new MultiTurnAgent({
    policy: Object.create(policy, { sample: { value: sample } }) as Policy,
    // The end token never comes, so that nothing ends by itself.
    sampling: { maxTokens: 400, temperature: 1.5 },
  });
  return { agent, seen, signal: stop.signal };
}

describe("an abort acts within a decoding step and leaves nothing running", { timeout: 120_000 }, () => {
  let policy: Policy;
  beforeAll(async () => {
    policy = await openPolicy({ model: starterModelPath });
  });
  afterAll(() => policy.close());

  /** The step that is under way when the signal fires, and the one that begins before the engine hears of it. */
  const settled = async (seen: ReturnType<typeof watched>["seen"]) => {
    expect(seen.running).toBe(0);
    expect(seen.late).toBeLessThanOrEqual(2 * conversations);
    const before = seen.late;
    await wait(50);
    expect(seen.late).toBe(before);
    // The engine is free: a new request is served at once.
    const { tokens } = policy.tokenizer.extend(undefined, [{ role: "user", content: "Hi" }], {
      addGenerationPrompt: true,
    });
    const sampling = { ...defaultSampling, maxTokens: 2 };
    expect(await policy.sample([{ tokens, sampling, seed: 1 }])).toHaveLength(1);
  };

  it("in evaluate()", async () => {
    const { agent, seen, signal } = watched(policy);
    const samples = conversations / 4;
    await expect(evaluate({ agent, environment, reward, samples, signal })).rejects.toSatisfy(isAbort);
    await settled(seen);
  });

  it("in harvestBestOfN()", async () => {
    const { agent, seen, signal } = watched(policy);
    await expect(harvestBestOfN({ agent, environment, reward, n: conversations / 4, signal })).rejects.toSatisfy(
      isAbort,
    );
    await settled(seen);
  });

  it("in the rollouts of train(), which ends as interrupted", async () => {
    const { agent, seen, signal } = watched(policy);
    const { run } = await train({ agent, environment, reward, signal, steps: 3, dir: false });
    expect(run).toMatchObject({ status: "interrupted", steps: 0 });
    await settled(seen);
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
    await settled(seen);

    const hanging = new ConversationEnvironment({
      scenarios: [{ id: "a", userResponses: ["Hi.", "Go on."] }],
      endWhen: [() => new Promise(() => {})],
    });
    const never = rewardFunction(() => new Promise<number>(() => {}));
    for (const parts of [
      { environment: hanging, reward },
      { environment, reward: never },
    ]) {
      const brief = new MultiTurnAgent({ policy, sampling: { maxTokens: 4 } });
      const stop = new AbortController();
      const evaluation = evaluate({ ...parts, agent: brief, samples: 2, signal: stop.signal });
      await wait(300);
      stop.abort();
      await expect(evaluation).rejects.toSatisfy(isAbort);
    }
  });
});
