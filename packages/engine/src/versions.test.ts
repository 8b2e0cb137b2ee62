import { describe, expect, it } from "vitest";
import { config, noise, randomModel, request, sample, tokens } from "../test/random-model.ts";
import { type Model, openModel } from "./model.ts";
import type { ForwardBatch, ForwardWants, SampledReply } from "./native.ts";

const wants: ForwardWants = {
  grad: false,
  entropy: false,
  values: false,
  hidden: false,
  adapters: true,
  recompute: false,
  temperature: 1,
  dropoutSeed: undefined,
};
const adamw = { learningRate: 0.01, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, scope: "all" } as const;

const line = (length = 40): ForwardBatch => ({
  tokens: tokens(length),
  nodeStart: Int32Array.of(0, length),
  nodeParent: Int32Array.of(-1),
  wanted: new Uint8Array(length).fill(1),
});

const scores = async (model: Model, more: Partial<ForwardWants> = {}) =>
  (await model.forward(line(), { ...wants, ...more })).logprobs;

/** One step of training. */
async function learn(model: Model): Promise<number> {
  const { pass } = await model.forward(line(), { ...wants, grad: true });
  await model.backward(pass!, { logprobs: new Float32Array(40).fill(0.1), valuesIntoTrunk: true });
  return (await model.step(adamw)).version;
}

const asked = request(tokens(30), 5, 900);

/** A reply that runs until it is ended, and what its first 900 tokens are if nothing happens. */
async function endlessReply(model: Model) {
  const alone = await sample(model, asked);
  let count = 0;
  const waiting = new Map<number, () => void>();
  const drawn = (n: number) => new Promise<void>((resolve) => (count >= n ? resolve() : waiting.set(n, resolve)));
  const { reply, cancel } = model.sample({ ...asked, maxTokens: 100_000 }, () => waiting.get(++count)?.());
  await drawn(1);
  const end = async (): Promise<SampledReply> => {
    await drawn(900);
    cancel();
    const { tokens: all, logprobs, ...rest } = await reply;
    return { ...rest, tokens: all.slice(0, 900), logprobs: logprobs.slice(0, 900) };
  };
  return { alone, end };
}

const same = ({ tokens: drawn, logprobs, version }: SampledReply) => ({ drawn, logprobs, version });

const longModel = (options = {}) => randomModel(options, { maxPositions: 1 << 17 });

describe("a change of the weights beside a running reply", () => {
  it.each([false, true])(
    "serves later requests at once and lets the reply end as it began (lora: %s)",
    async (lora) => {
      const model = await longModel();
      if (lora) await model.addLora({ rank: 4, alpha: 8, dropout: 0, targets: ["q", "v"], seed: 1 });
      else await model.setTrainable("full");
      await learn(model);
      const before = model.version;
      const { alone, end } = await endlessReply(model);
      const version = await learn(model);
      expect(version).toBeGreaterThan(before);
      expect(model.version).toBe(version);
      const next = await sample(model, request(tokens(256, 3), 1, 4));
      expect(next.version).toBe(version);
      expect(model.stats()).toMatchObject({ version, versions: 2, running: 1, waiting: 0, drains: 0 });
      const { versions, model: own } = await model.memory();
      expect(versions).toBeGreaterThan(0);
      // Under LoRA the base model is shared.
      if (lora) expect(versions).toBeLessThan(own / 4);
      expect(same(await end())).toEqual(same(alone));
      expect(alone.version).toBe(before);
      expect(model.stats().versions).toBe(1);
      expect((await model.memory()).versions).toBe(0);
      // The new weights reply as they would have without all this.
      expect(same(await sample(model, request(tokens(256, 3), 1, 4)))).toEqual(same(next));
    },
  );

  it("waits for it where there is no room for two versions, and says so", async () => {
    const model = await longModel({ versionBytes: 0 });
    const alone = await sample(model, asked);
    const order: string[] = [];
    const noted = async <T>(name: string, work: Promise<T>) => {
      const result = await work;
      order.push(name);
      return result;
    };
    const [reply, changed, next] = await Promise.all([
      noted("reply", sample(model, asked)),
      noted("change", model.setTensor("final_norm.weight", new Float32Array(32).fill(0.5))),
      noted("next", sample(model, request(tokens(20), 1, 4))),
    ]);
    expect(order).toEqual(["reply", "change", "next"]);
    expect(same(reply)).toEqual(same(alone));
    expect(changed).toEqual({ version: alone.version + 1, drained: true });
    expect(next.version).toBe(changed.version);
    expect(model.stats().drains).toBe(1);
    expect((await model.memory()).versions).toBe(0);
  });

  it("gives up waiting after the time it was told", async () => {
    const model = await longModel({ versionBytes: 0, drainMs: 0 });
    const { alone, end } = await endlessReply(model);
    const change = model.setTensor("final_norm.weight", new Float32Array(32).fill(0.5));
    await expect(change).rejects.toMatchObject({ code: "DRAIN_TIMEOUT", message: expect.stringContaining("0 s") });
    expect(same(await end())).toEqual(same(alone));
    expect(model.version).toBe(alone.version);
  });
});

describe("a load", () => {
  it("is one change, with the optimiser's state that belongs to it", async () => {
    const [source, model] = [await randomModel(), await randomModel()];
    for (const each of [source, model]) await each.setTrainable("full");
    for (let i = 0; i < 3; i++) await learn(source);
    await learn(model);
    const before = await scores(model);
    const load = await model.beginLoad();
    const trained = await source.retainTraining();
    for (const { name } of await source.tensors()) {
      await load.setTensor(name, await trained.readTensor(name));
      await load.setMoments(name, ...(await trained.readMoments(name)));
    }
    await load.setStepCounts(...trained.steps);
    expect(await scores(model)).toEqual(before);
    const { version } = model;
    expect(await load.commit()).toEqual({ version: version + 1, drained: false });
    expect(await model.digest()).toBe(await source.digest());
    await learn(source);
    await learn(model);
    expect(await model.readFlat("parameters")).toEqual(await source.readFlat("parameters"));
    await expect(load.setTensor("embed", new Float32Array(64 * 32))).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });

  it("changes nothing when it is discarded, or when what it is given is refused", async () => {
    const model = await randomModel();
    const before = await scores(model);
    const { version } = model;
    const load = await model.beginLoad();
    await load.setTensor("embed", noise("embed", 64 * 32, 99));
    const bad = new Float32Array(32).fill(Number.NaN);
    await expect(load.setTensor("final_norm.weight", bad)).rejects.toMatchObject({ code: "NOT_FINITE" });
    expect((await model.memory()).retained).toBeGreaterThan(0);
    await load.discard();
    expect(await scores(model)).toEqual(before);
    expect(model.version).toBe(version);
    expect((await model.memory()).retained).toBe(0);
  });
});

describe("retained weights", () => {
  it("cost nothing until the weights move, and then what moved", async () => {
    const model = await randomModel();
    await model.setTrainable("full");
    const before = await scores(model);
    const start = await model.retain();
    expect((await model.memory()).retained).toBe(0);
    await learn(model);
    const middle = await model.retain();
    const between = await scores(model);
    await learn(model);
    expect(await scores(model, { weights: start.handle })).toEqual(before);
    expect(await scores(model, { weights: middle.handle })).toEqual(between);
    expect(start.version).toBeLessThan(middle.version);
    const { retained } = await model.memory();
    await middle.close();
    expect((await model.memory()).retained).toBe(retained / 2);
    await expect(scores(model, { weights: middle.handle })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await start.close();
    expect((await model.memory()).retained).toBe(0);
    const other = await randomModel();
    await expect(scores(other, { weights: start.handle })).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });

  it("come with the optimiser's state when that is asked for, and keep it", async () => {
    const model = await randomModel();
    await model.setTrainable("full");
    const fresh = await model.retainTraining();
    for (let i = 0; i < 2; i++) await learn(model);
    const then = await model.retainTraining();
    const read = async (of: typeof then) => ({ steps: of.steps, moments: await of.readMoments("embed") });
    const before = await read(then);
    expect((await model.memory()).retained).toBe(4 * (await model.readFlat("parameters")).length);
    await learn(model);
    expect(await read(then)).toEqual(before);
    expect(before.steps).toEqual([2, 0]);
    const now = await model.retainTraining();
    expect((await read(now)).moments).not.toEqual(before.moments);
    expect(await read(fresh)).toEqual({
      steps: [0, 0],
      moments: [new Float32Array(64 * 32), new Float32Array(64 * 32)],
    });
    for (const each of [fresh, then, now]) await each.close();
    expect((await model.memory()).retained).toBe(0);
    await expect(then.readMoments("embed")).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });

  it("can be loaded from elsewhere", async () => {
    const [source, model] = [await randomModel(), await randomModel()];
    await source.setTrainable("full");
    await learn(source);
    const [own, others] = [await scores(model), await scores(source)];
    const load = await model.beginRetainedLoad();
    for (const { name } of await source.tensors()) await load.setTensor(name, await source.readTensor(name));
    const weights = await load.retain();
    expect(await scores(model, { weights: weights.handle })).toEqual(others);
    expect(await scores(model)).toEqual(own);
    expect(await weights.digest()).toBe(await source.digest());
    expect(await weights.readTensor("embed")).toEqual(await source.readTensor("embed"));
  });

  it("follow the present weights as a moving average", async () => {
    const model = await randomModel();
    await model.setTrainable("full");
    const average = await model.retain();
    const start = await model.readTensor("embed");
    await learn(model);
    const now = await model.readTensor("embed");
    expect(await average.blend(0.75)).toBe(model.version);
    const blended = await average.readTensor("embed");
    blended.forEach((value, i) => {
      expect(value).toBeCloseTo(0.75 * start[i]! + 0.25 * now[i]!, 6);
    });
    expect(await model.readTensor("embed")).toEqual(now);
    await expect(average.blend(2)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await Promise.all([average.close(), model.close()]);
    await average.close();
  });
});

describe("limits and statistics", () => {
  it("refuse with BUSY what is more than may wait, and add up", async () => {
    const model = await randomModel({ slots: 2, maxWaiting: 3 }, { maxPositions: 1 << 17 });
    const running = Array.from({ length: 10 }, (_, i) => model.sample(request(tokens(20, i % 2), i, 100_000)));
    const outcomes = Promise.allSettled(running.map(({ reply }) => reply));
    await expect(running[9]!.reply).rejects.toMatchObject({ code: "BUSY" });
    const { running: decoding, waiting } = model.stats();
    expect(decoding + waiting).toBe(5);
    for (const { cancel } of running) cancel();
    const served: SampledReply[] = [];
    for (const [i, outcome] of (await outcomes).entries()) {
      expect(outcome.status).toBe(i < 5 ? "fulfilled" : "rejected");
      if (outcome.status === "fulfilled") served.push(outcome.value);
    }
    // There is room again.
    for (let i = 0; i < 4; i++) served.push(await sample(model, request(tokens(20, i % 2), i, 6)));
    const sum = (of: (reply: SampledReply) => number) => served.reduce((total, reply) => total + of(reply), 0);
    expect(model.stats()).toMatchObject({
      slots: 2,
      running: 0,
      waiting: 0,
      versions: 1,
      cachedTokens: sum(({ cached }) => cached),
      sampledTokens: sum(({ tokens: drawn }) => drawn.length),
      cacheBytes: (await model.memory()).cache,
    });
    const heard = served.filter(({ tokens: drawn }) => drawn.length > 0);
    expect(model.stats().promptTokens).toBe(20 * heard.length);
    expect(sum(({ queuedMs }) => (queuedMs >= 0 ? 0 : 1))).toBe(0);
  });

  it("can be asked for while the engine is at work, and after", async () => {
    const model = await longModel();
    const { end } = await endlessReply(model);
    expect(model.stats()).toMatchObject({ running: 1, waiting: 0 });
    await end();
    await model.close();
    expect(model.stats().running).toBe(0);
  });
});

it("reserves no second copy for a model's first weights", async () => {
  const big = { ...config, vocab: 40_000, hidden: 128 };
  const model = await openModel(big, { threads: 1, slots: 1, cacheBytes: 0 });
  const load = await model.beginLoad();
  await load.setTensor("embed", new Float32Array(40_000 * 128).fill(0.5));
  expect(await load.commit()).toEqual({ version: 1, drained: false });
  expect((await model.memory()).model).toBeLessThan(1.5 * 4 * 40_000 * 128);
  await model.close();
});
