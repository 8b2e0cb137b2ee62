/** Who judges a run, what becomes of one that fails, and who may call whose address. */
import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { evaluate } from "../evaluation/evaluate.ts";
import type { Played } from "../rollout/play.ts";
import { ask, type Given, post, postReward } from "../test-support/plain-client.ts";
import { FunctionReward, politeShare, quickRun, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { train } from "../training/train.ts";
import { defineHarness, type HarnessOptions, type HarnessRun } from "./harness.ts";
import { type OpenHarness, openHarness } from "./play-with-harness.ts";

const scenario = { id: "a" };
const asked: Given[] = [{ role: "user", content: "refund order" }];
let open: OpenHarness | undefined;
afterEach(() => open?.close());

async function opened(
  run: HarnessOptions["run"],
  { scored = false, timeoutMs = 10_000, agent = tableAgent().agent } = {},
): Promise<(member?: number) => Promise<Played>> {
  await agent.initialize();
  const harness = defineHarness({ scenarios: [scenario], run, timeoutMs });
  open = await openHarness({ agent, harness, settings: { maxTurns: 8 }, scored });
  const { play } = open;
  return (member = 0) => play({ id: `g-m${member}`, scenario, seed: 5, member, sampling: {}, learn: true }, undefined);
}

describe("a reply that was whole when its client left", () => {
  it("is kept like one that was broken off", async () => {
    const { agent, policy } = tableAgent();
    const leaving = new AbortController();
    const { sample } = policy;
    policy.sample = async (requests, options) => {
      const samples = await sample(requests, options);
      if (leaving.signal.aborted) return samples;
      leaving.abort();
      await new Promise((settle) => options!.signal!.addEventListener("abort", settle));
      return samples;
    };
    const play = await opened(
      async (access) => {
        await ask({ ...access, signal: leaving.signal }, asked).catch(() => {});
        await ask(access, [{ role: "user", content: "late" }]);
        return 1;
      },
      { agent },
    );
    const { trajectory } = await play();
    expect(trajectory.metadata.harness).toMatchObject({ calls: 1, broken: 1 });
    expect(trajectory.chains.map(({ learn }) => learn.includes(1))).toEqual([true, false]);
  });
});

describe("the reward of a run", () => {
  const asks = (after: (access: HarnessRun) => unknown) => async (access: HarnessRun) => {
    await ask(access, asked);
    return (await after(access)) as number;
  };

  it.each([
    ["is the number it returns", () => 0.5, { score: 0.5, breakdown: { harness: 0.5 } }],
    ["has the parts it names", () => ({ reward: 2, parts: { a: 1, b: 1 } }), { score: 2, breakdown: { a: 1, b: 1 } }],
    ["may be posted", (to: HarnessRun) => void postReward(to, { reward: 3 }), { score: 3, breakdown: { harness: 3 } }],
  ] as const)("%s", async (_, after, reward) => {
    const wait = async (access: HarnessRun) => {
      const given = after(access);
      await sleep(50);
      return given;
    };
    expect((await (await opened(asks(wait)))()).reward).toEqual(reward);
  });

  it("may be posted twice where it is the same, and not where it is another", async () => {
    const statuses: number[] = [];
    const play = await opened(
      asks(async (access) => {
        for (const reward of [1, 1, 2]) statuses.push((await postReward(access, { reward })).status);
        statuses.push((await postReward(access, { rewards: 1 })).status);
      }),
    );
    expect((await play()).reward).toMatchObject({ score: 1 });
    expect(statuses).toEqual([200, 200, 409, 400]);
  });

  it("comes from one source", async () => {
    const both = asks(async (access) => {
      await postReward(access, { reward: 1 });
      return 2;
    });
    await expect((await opened(both))()).rejects.toThrow(/posted one reward and returned another/);
    await expect(
      (
        await opened(
          asks(() => 1),
          { scored: true },
        )
      )(),
    ).rejects.toThrow(/and so does the option `reward`/);
    await expect((await opened(asks(() => undefined)))()).rejects.toThrow(/gave no reward, and there is no option/);
  });
});

describe("a run that fails", () => {
  it("is begun anew once, with an address, a key and draws of its own", async () => {
    const seen: { url: string; key: string; said: string }[] = [];
    const play = await opened(async (access) => {
      const { content } = await ask(access, asked, { max_tokens: 6 });
      seen.push({ url: access.baseURL, key: access.apiKey, said: content });
      if (seen.length === 1) throw new Error("the first time");
      return 1;
    });
    const { trajectory, failures } = await play();
    expect(failures).toEqual([
      expect.objectContaining({ kind: "threw", during: "harness", message: "the first time" }),
    ]);
    expect(trajectory).toMatchObject({ ended: "done", metadata: { harness: { attempt: 1, calls: 1 } } });
    expect(new Set(seen.map(({ url }) => url)).size).toBe(2);
    expect(new Set(seen.map(({ key }) => key)).size).toBe(2);
    expect(trajectory.turns.at(-1)!.content).toBe(seen[1]!.said);
    expect(seen[1]!.said).not.toBe(seen[0]!.said);
  });

  it("twice is lost, and its trajectory says what was said", async () => {
    const play = await opened(async (access) => {
      await ask(access, asked);
      throw new Error("always");
    });
    const { trajectory, failures, reward } = await play();
    expect(failures).toHaveLength(2);
    expect(reward).toBeUndefined();
    expect(trajectory).toMatchObject({ ended: "failed", failure: { message: "always" } });
    expect(trajectory.turns).toHaveLength(2);
  });

  it("is one that hangs, and one that asks nothing", async () => {
    const aborted: boolean[] = [];
    const hangs = await opened(
      ({ signal }) =>
        new Promise<void>(() => {
          signal.addEventListener("abort", () => aborted.push(true));
        }),
      { timeoutMs: 30 },
    );
    expect((await hangs()).failures.map(({ kind }) => kind)).toEqual(["timeout", "timeout"]);
    expect(aborted).toEqual([true, true]);
    await open!.close();
    const silent = await opened(async () => 1);
    expect((await silent()).failures[0]!.message).toMatch(
      /^it made no call of the model: its client needs the baseURL/,
    );
  });
});

describe("a conversation with more replies than training allows", () => {
  const talks = async (access: HarnessRun) => {
    const messages = [...asked];
    for (let i = 0; i < 9; i++) messages.push(await ask(access, messages), { role: "user", content: "ok really" });
  };

  it("ends there where the turns are scored, and has failed where the agent itself would have to", async () => {
    const scored = await (await opened(talks, { scored: true }))();
    expect(scored.failures).toEqual([]);
    expect(scored.trajectory).toMatchObject({ ended: "max-turns", metadata: { harness: { calls: 8 } } });
    expect(scored.trajectory.turns).toHaveLength(16);
    await open!.close();
    const own = await (await opened(talks))();
    expect(own.trajectory).toMatchObject({
      ended: "failed",
      failure: { message: expect.stringContaining("max_turns") },
    });
  });
});

describe("an address", () => {
  it("opens to the key of its own attempt, while that runs", async () => {
    const others: HarnessRun[] = [];
    const statuses: number[] = [];
    let both!: () => void;
    const here = new Promise<void>((settle) => {
      both = settle;
    });
    let tried!: () => void;
    const over = new Promise<void>((settle) => {
      tried = settle;
    });
    const play = await opened(async (access) => {
      others.push(access);
      if (others.length === 2) both();
      await here;
      const [a, b] = others as [HarnessRun, HarnessRun];
      await ask(access, asked);
      if (access === a) {
        const call = { model: a.model, messages: asked };
        for (const to of [
          { ...a, apiKey: b.apiKey },
          { ...b, apiKey: a.apiKey },
          { ...a, apiKey: `${a.apiKey.slice(0, -1)}_` },
        ])
          statuses.push(
            (await post(to, "/chat/completions", call)).status,
            (await postReward(to, { reward: 1 })).status,
          );
        const models = await fetch(`${a.baseURL}/models`, { headers: { authorization: `Bearer ${a.apiKey}` } });
        statuses.push(models.status);
        tried();
      }
      await over;
      return 1;
    });
    const played = await Promise.all([play(0), play(1)]);
    expect(statuses).toEqual([404, 404, 404, 404, 401, 401, 200]);
    expect(played.map(({ trajectory }) => trajectory.metadata.harness)).toMatchObject([{ calls: 1 }, { calls: 1 }]);
    const late = await post(others[0]!, "/chat/completions", { model: others[0]!.model, messages: asked });
    expect([late.status, await late.text()]).toEqual([401, expect.stringContaining("has expired")]);
  });

  it("holds nobody who has not come to an end when its attempt has", async () => {
    let closed!: Promise<unknown>;
    const play = await opened(async (access) => {
      // Says that something is to come, and sends nothing.
      const json = { "content-type": "application/json", "content-length": 100 };
      const headers = { authorization: `Bearer ${access.apiKey}`, ...json };
      const half = request(`${access.baseURL}/chat/completions`, { method: "POST", headers });
      closed = new Promise((settle) => half.once("error", settle));
      half.flushHeaders();
      await ask(access, asked);
      return 1;
    });
    await play();
    expect(await closed).toMatchObject({ code: "ECONNRESET" });
  });

  it("is of this machine alone", async () => {
    let url = "";
    const play = await opened(async (access) => {
      url = access.baseURL;
      await ask(access, asked);
      return 1;
    });
    await play();
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/r\/0\/0\/v1$/);
  });
});

describe("train() and evaluate()", () => {
  const harness = defineHarness({
    scenarios: ["refund order", "card broken"].map((content) => ({ id: content, content })),
    async run(access) {
      const { content } = access.scenario;
      const first = await ask(access, [{ role: "user", content }]);
      await ask(access, [{ role: "user", content }, first, { role: "user", content: "ok really" }], { top_p: 0.9 });
    },
  });
  const { environment: _, ...quick } = quickRun;
  const reward = (sign: number) => new FunctionReward((turns) => sign * politeShare(turns));

  it("learn what the reward asks for, and the opposite with its sign turned", async () => {
    const politeAfter = async (sign: number) => {
      const { agent } = tableAgent();
      const few = { groupsPerStep: 2, groupSize: 4 };
      const { run } = await train({ ...quick, ...few, agent, harness, reward: reward(sign) });
      expect(run.metrics[0]).toMatchObject({ firstRatioMax: expect.closeTo(1, 5), replies: expect.any(Number) });
      const warned = run.warnings.filter(({ kind }) => kind === "sampling-overridden");
      expect(warned).toHaveLength(1);
      expect(warned[0]!.message).toMatch(/asks for `top_p`/);
      return (await evaluate({ agent, harness, reward: reward(1), samples: 8 })).reward.mean;
    };
    const before = (await evaluate({ agent: tableAgent().agent, harness, reward: reward(1), samples: 8 })).reward.mean;
    expect(await politeAfter(1)).toBeGreaterThan(before + 0.1);
    expect(await politeAfter(-1)).toBeLessThan(before - 0.05);
  });

  it("play held-out scenarios in the same harness", async () => {
    const { agent } = tableAgent();
    const heldOut = ["order late", "help order", "thanks well"].map((content) => ({ id: content, content }));
    const { run } = await train({ ...quick, agent, harness, heldOut, reward: reward(1), steps: 2 });
    expect(run.evaluation!.after!.reward.count).toBeGreaterThan(0);
    expect(run.evaluation!.after!.lost).toBe(0);
  });

  it("take an environment or a harness, and say which is missing or too many", async () => {
    const { agent } = tableAgent();
    const both = { agent, harness, environment: tableEnvironment(), dir: false as const };
    await expect(train(both)).rejects.toThrow(/got an environment and a harness/);
    await expect(evaluate({ agent, harness, environment: tableEnvironment() })).rejects.toThrow(
      /evaluate\(\) got an env/,
    );
    await expect(train({ agent, dir: false })).rejects.toThrow(/needs the option "environment"/);
    await expect(train({ agent, dir: false, harness: {} as typeof harness })).rejects.toThrow(/not a harness \(define/);
    await expect(train({ ...quick, agent, harness, constrain: true, reward: reward(1) })).rejects.toThrow(
      /Set it on the agent/,
    );
    expect(() => defineHarness({ scenarios: [], runs: async () => {} } as never)).toThrow(/Unknown option "runs"/);
  });

  it("stop where the agent's hooks or its engine fail, not the harness", async () => {
    class Broken extends MultiTurnAgent {
      protected override beforeGeneration(): never {
        throw new Error("the hook is broken");
      }
    }
    const { policy } = tableAgent();
    const agent = new Broken({ policy });
    const play = await opened(async (access) => void (await ask(access, asked)), { scored: true, agent });
    const { failures } = await play();
    expect(failures).toEqual([
      expect.objectContaining({ during: "hook", message: expect.stringContaining("the hook is broken") }),
    ]);
  });
});
