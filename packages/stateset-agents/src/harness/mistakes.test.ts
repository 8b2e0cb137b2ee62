/** What people get wrong when they bring their agent: each is told what was wrong, and costs no more than it must. */
import { describe, expect, it } from "vitest";
import { ask, type Given, post } from "../test-support/plain-client.ts";
import { quickRun, tableAgent } from "../test-support/table-training.ts";
import { train } from "../training/train.ts";
import { defineHarness, type HarnessOptions, type HarnessRun } from "./harness.ts";

const asked: Given[] = [{ role: "user", content: "refund order" }];
const { environment: _, ...quick } = quickRun;

function trained(run: (access: HarnessRun) => unknown, more: Partial<HarnessOptions> = {}) {
  const harness = defineHarness({ scenarios: [{ id: "a" }], run: run as HarnessOptions["run"], ...more });
  return train({ ...quick, agent: tableAgent().agent, harness, steps: 1, groupsPerStep: 1, groupSize: 3 });
}

describe("a reward that is none", () => {
  it.each([
    [Number.NaN, /The harness returned NaN, and a finite number or \{ reward, parts \} was expected/],
    ["0.7", /The harness returned '0.7', and a finite/],
    [[1], /The harness returned \[ 1 \]/],
    [{ score: 1 }, /Unknown option "score" in what the harness returned/],
  ])("costs its conversation, not the run: %j", async (wrong, says) => {
    let runs = 0;
    const { run } = await trained(async (access) => {
      const mine = runs++;
      await ask(access, asked);
      return mine === 1 ? wrong : mine;
    });
    expect(run.metrics[0]).toMatchObject({ conversations: 2 });
    const said = run.warnings.filter(({ kind }) => kind === "reward-failed");
    expect(said).toHaveLength(1);
    expect(said[0]!.message).toMatch(says);
    // It would be none again.
    expect(runs).toBe(3);
  });

  it("stops a run in which there is no other", async () => {
    const none = trained(async (access) => {
      await ask(access, asked);
      return Number.NaN;
    });
    await expect(none).rejects.toMatchObject({ code: "REWARD_FAILED", message: /3× The harness returned NaN/ });
  });
});

describe("a run that comes to nothing", () => {
  it("is told whose fault it is, and where a mistake in code lies", async () => {
    const broken = trained(async (access) => {
      const reply = (await ask(access, asked)) as unknown as { choices: { message: unknown }[] };
      return reply.choices[0]!.message;
    });
    await expect(broken).rejects.toMatchObject({
      code: "ENVIRONMENT_FAILED",
      message: expect.stringMatching(/Cannot read properties of undefined[\s\S]*\nTypeError: Cannot read/),
      hint: expect.stringContaining("Repair the harness"),
    });
  });

  it("is told what was refused, though its agent kept that to itself", async () => {
    const swallowed = trained(async (access) => {
      await post(access, "/chat/completions", { model: access.model, messages: asked, max_token: 3 });
      return 1;
    });
    await expect(swallowed).rejects.toThrow(/none of its calls was answered; the last was refused: 400 .*max_token/);
  });

  it("is told that it was too slow, and which option says so", async () => {
    const slow = trained(() => new Promise(() => {}), { timeoutMs: 20 });
    await expect(slow).rejects.toThrow(/had not ended after 20 ms \(timeoutMs of defineHarness\(\)\)/);
  });

  it("is told which API is served, where its client speaks another", async () => {
    let told = "";
    await trained(async (access) => {
      await ask(access, asked);
      const response = await post(access, "/responses", { model: access.model, input: "refund order" });
      told = `${response.status} ${await response.text()}`;
      return 1;
    });
    expect(told).toMatch(/^404 .*not \/v1\/responses: call setOpenAIAPI/);
  });

  it("is told of an onCall that throws", async () => {
    const onCall = () => {
      throw new Error("my log is full");
    };
    const logged = trained(async (access) => void (await ask(access, asked)), { onCall });
    await expect(logged).rejects.toMatchObject({
      code: "HOOK_FAILED",
      message: expect.stringContaining("The harness's onCall threw: my log is full"),
    });
  });
});

describe("scenarios", () => {
  it("are each run's own, whatever its agent writes into them", async () => {
    class Price {
      euros = 3;
    }
    const given = { id: "a", messages: [] as Given[], inner: { seen: false }, price: new Price() };
    const seen: unknown[] = [];
    let reward = 0;
    await trained(
      async (access) => {
        const scenario = access.scenario as typeof given;
        seen.push([scenario.messages.length, scenario.inner.seen, scenario.price === given.price]);
        scenario.messages.push(...asked);
        scenario.inner.seen = true;
        await ask(access, scenario.messages);
        return reward++;
      },
      { scenarios: [given] },
    );
    expect(seen).toEqual(Array(3).fill([0, false, true]));
    expect(given).toMatchObject({ messages: [], inner: { seen: false } });
  });

  it("have names of their own", () => {
    const twice = { scenarios: [{ id: "a" }, { id: "b" }, { id: "a" }], run: async () => 1 };
    expect(() => defineHarness(twice)).toThrow(/Two scenarios of the harness are called "a"/);
  });
});

it("takes for a harness only what defineHarness() made", async () => {
  const { agent } = tableAgent();
  const plain = { scenarios: [{ id: "a" }], run: async () => 1, timeoutMs: 1 };
  await expect(train({ agent, dir: false, harness: plain as never })).rejects.toThrow(/not a harness \(defineHarness/);
  await expect(train({ agent, dir: false })).rejects.toThrow(/needs the option "environment" or "harness"/);
});
