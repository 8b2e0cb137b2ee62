import { describe, expect, it } from "vitest";
import { type HealthSources, healthz, type ModelHealth, readyReply, readyz } from "./health.ts";

const well: ModelHealth = { name: "shop", loaded: true, alive: true, waiting: 3, maxWaiting: 10 };

const sources = (models: ModelHealth[], draining = false): HealthSources => ({
  models: () => models,
  draining: () => draining,
});

describe("readyz", () => {
  it("is ready when every model is loaded, alive and has room", () => {
    expect(readyz(sources([well]))).toEqual({ ready: true, reasons: [] });
    expect(healthz()).toEqual({ status: "ok" });
  });

  it.each<[string, HealthSources, string]>([
    ["nothing is loaded", sources([]), "No model is loaded."],
    ["a model is loading", sources([well, { ...well, loaded: false }]), 'The model "shop" is not loaded yet.'],
    ["an engine failed", sources([{ ...well, alive: false }]), 'The engine of the model "shop" failed.'],
    ["a queue is full", sources([{ ...well, waiting: 10 }]), 'The queue of the model "shop" is full: 10 wait.'],
    ["it ends", sources([well], true), "The server is ending."],
  ])("is not ready when %s, and says why", (_, from, reason) => {
    expect(readyz(from)).toEqual({ ready: false, reasons: [reason] });
  });

  it("is ready with a queue that holds nobody", () => {
    expect(readyz(sources([{ ...well, waiting: 0, maxWaiting: 0 }])).ready).toBe(true);
  });
});

describe("readyReply", () => {
  const not = readyz(sources([{ ...well, alive: false }]));

  it("tells the reasons to those who may read alone", () => {
    expect(readyReply(not)).toEqual({ status: 503, body: { status: "not ready" } });
    expect(readyReply(not, new Set(["infer", "metrics"]))).toEqual({ status: 503, body: { status: "not ready" } });
    expect(readyReply(not, new Set(["read"])).body.reasons).toEqual(['The engine of the model "shop" failed.']);
    expect(readyReply({ ready: true, reasons: [] })).toEqual({ status: 200, body: { status: "ready" } });
  });
});
