import { afterEach, describe, expect, it } from "vitest";
import { served } from "../../test-support/served.ts";
import { createMetrics, type MeasuredModel, type MetricSources, type Metrics } from "./metrics.ts";

const model = (over: Partial<MeasuredModel> = {}): MeasuredModel => ({
  name: "shop",
  version: "abc:3",
  waiting: 5,
  running: 2,
  cacheBytesMax: 1000,
  stats: {
    running: 1,
    waiting: 0,
    slots: 4,
    cacheBytes: 250,
    promptTokens: 0,
    cachedTokens: 0,
    sampledTokens: 0,
    versions: 2,
  },
  ...over,
});

let metrics: Metrics | undefined;
afterEach(() => metrics?.close());

async function open(over: Partial<MetricSources> = {}): Promise<Metrics> {
  metrics = await createMetrics({
    models: () => [model()],
    breakers: () => [],
    routes: () => ["POST /v1/chat/completions"],
    ...over,
  });
  return metrics;
}

/** The samples of a metric, by their labels. */
async function samples(name: string): Promise<Record<string, number>> {
  const lines = (await metrics!.text()).split("\n").filter((line) => new RegExp(`^stateset_${name}(\\{| )`).test(line));
  return Object.fromEntries(
    lines.map((line) => {
      const [, labels = "", value] = /^\w+(?:\{(.*)\})? (\S+)$/.exec(line)!;
      return [labels, Number(value)];
    }),
  );
}

describe("createMetrics", () => {
  it("counts requests, tokens and chains", async () => {
    const one = await open();
    one.served(served({ chain: "continued" }));
    one.served(served({ chain: "started", status: 429, errorCode: "queue_full" }));
    const route = 'route="POST /v1/chat/completions"';
    expect(await samples("requests_total")).toEqual({
      [`${route},status="200",model="shop",code=""`]: 1,
      [`${route},status="429",model="shop",code="queue_full"`]: 1,
    });
    expect(await samples("prompt_tokens_total")).toEqual({ 'model="shop"': 20 });
    expect(await samples("cached_tokens_total")).toEqual({ 'model="shop"': 8 });
    expect(await samples("sampled_tokens_total")).toEqual({ 'model="shop"': 6 });
    expect(await samples("chains_total")).toEqual({ 'outcome="continued"': 1, 'outcome="started"': 1 });
  });

  it("makes no series of tokens for requests that have none", async () => {
    const { model: _, ...probe } = served({
      route: "GET /healthz",
      promptTokens: 0,
      cachedTokens: 0,
      sampledTokens: 0,
    });
    (await open({ routes: () => ["GET /healthz"] })).served(probe);
    expect(await samples("requests_total")).toEqual({ 'route="GET /healthz",status="200",model="",code=""': 1 });
    expect(await samples("prompt_tokens_total")).toEqual({});
  });

  it("puts times into buckets of seconds", async () => {
    const one = await open();
    one.served(served({ queuedMs: 3, firstTokenMs: 40, interTokenMs: [2, 3, 700] }));
    expect(await samples("queue_seconds_sum")).toEqual({ 'model="shop"': 0.003 });
    expect(await samples("first_token_seconds_bucket")).toMatchObject({
      'le="0.025",model="shop"': 0,
      'le="0.05",model="shop"': 1,
      'le="60",model="shop"': 1,
    });
    expect(await samples("inter_token_seconds_bucket")).toMatchObject({
      'le="0.001",model="shop"': 0,
      'le="0.0025",model="shop"': 1,
      'le="0.005",model="shop"': 2,
      'le="1",model="shop"': 3,
    });
  });

  it("makes no label of what a client wrote, nor of keys, whatever comes", async () => {
    const one = await open();
    for (let i = 0; i < 200; i++) {
      one.served(
        served({
          route: `GET /canary${i}`,
          model: `canary${i}`,
          status: i < 100 ? 600 + i : 404,
          keyId: "canary",
          project: "canary",
          requestId: "canary",
          version: "canary",
        }),
      );
    }
    expect(await samples("requests_total")).toEqual({
      'route="",status="",model="",code=""': 100,
      'route="",status="404",model="",code=""': 100,
    });
    expect(await one.text()).not.toContain("canary");
  });

  it("reads gauges when asked, and forgets models that are gone", async () => {
    let models = [model(), model({ name: "old", cacheBytesMax: 0 })];
    await open({ models: () => models });
    expect(await samples("waiting")).toEqual({ 'model="shop"': 5, 'model="old"': 5 });
    expect(await samples("cache_share")).toEqual({ 'model="shop"': 0.25, 'model="old"': 0 });
    models = [model({ waiting: 0, version: "abc:4" })];
    expect(await samples("waiting")).toEqual({ 'model="shop"': 0 });
    expect(await samples("running")).toEqual({ 'model="shop"': 2 });
    expect(await samples("cache_bytes")).toEqual({ 'model="shop"': 250 });
    expect(await samples("versions")).toEqual({ 'model="shop"': 2 });
    expect(await samples("model_info")).toEqual({ 'model="shop",version="abc:4"': 1 });
  });

  it("knows a model from the moment it is served", async () => {
    let models = [model()];
    const one = await open({ models: () => models });
    one.served(served({ model: "new" }));
    models = [model(), model({ name: "new" })];
    one.served(served({ model: "new" }));
    expect(await samples("sampled_tokens_total")).toEqual({ 'model=""': 3, 'model="new"': 3 });
  });

  it("shows breakers and lost lines as they are, however often it is asked", async () => {
    await open({ breakers: () => [{ target: "https://judge.example", open: true, opened: 3 }], logLost: () => 7 });
    for (let i = 0; i < 2; i++) {
      expect(await samples("breaker_open")).toEqual({ 'target="https://judge.example"': 1 });
      expect(await samples("breaker_opened_total")).toEqual({ 'target="https://judge.example"': 3 });
      expect(await samples("log_lost_total")).toEqual({ "": 7 });
    }
  });

  it("measures how long the event loop was held up, since the last scrape", async () => {
    await open();
    await new Promise((resolve) => setTimeout(resolve, 30));
    const until = performance.now() + 120;
    while (performance.now() < until);
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect((await samples("event_loop_lag_seconds"))['quantile="1"']).toBeGreaterThan(0.05);
    expect(await samples("event_loop_lag_seconds")).toEqual({
      'quantile="0.5"': 0,
      'quantile="0.99"': 0,
      'quantile="1"': 0,
    });
  });

  it("keeps registers apart, so that two servers may live in one process", async () => {
    const first = await open();
    first.served(served());
    const second = await createMetrics({ models: () => [], breakers: () => [], routes: () => [] });
    expect(await second.text()).not.toContain("shop");
    second.close();
    expect(await first.text()).toContain("shop");
    expect(first.contentType).toContain("text/plain");
  });
});
