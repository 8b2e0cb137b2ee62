import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ServerAlert } from "../../alert.ts";
import { served } from "../../test-support/served.ts";
import type { ModelHealth } from "./health.ts";
import { type Watch, type WatchOptions, watchServer } from "./watch.ts";

let told: ServerAlert[];
let model: ModelHealth;
let watch: Watch;
beforeEach(() => {
  vi.useFakeTimers();
  told = [];
  model = { name: "shop", loaded: true, alive: true, waiting: 0, maxWaiting: 4 };
});
afterEach(() => {
  watch.close();
  vi.useRealTimers();
});

function open(over: Partial<WatchOptions> = {}): Watch {
  const sources = { models: () => [model], draining: () => false };
  watch = watchServer({ server: "here", sources, onAlert: (alert) => void told.push(alert), ...over });
  return watch;
}

const serve = (count: number, status = 200) => {
  for (let i = 0; i < count; i++) watch.served(served({ status, failed: status >= 500 }));
};
const kinds = () => told.map(({ kind }) => kind);

describe("watchServer", () => {
  it("says nothing of a server that is well", async () => {
    open();
    serve(1000);
    serve(1000, 404);
    await vi.advanceTimersByTimeAsync(120_000);
    expect(told).toEqual([]);
  });

  it("counts streams that failed after their 200", () => {
    open({ fewest: 2 });
    for (const _ of [1, 2]) watch.served(served({ streamed: true, failed: true, errorCode: "engine_failed" }));
    expect(kinds()).toEqual(["error-rate"]);
  });

  it("tells of a share of errors, once it is a share of something", () => {
    open({ errorShare: 0.25, fewest: 8 });
    serve(3, 500);
    serve(4);
    expect(told).toEqual([]);
    serve(1);
    expect(told).toEqual([
      { kind: "error-rate", server: "here", message: "3 of the last minute's 8 requests failed." },
    ]);
  });

  it("forgets errors after a minute", async () => {
    open({ errorShare: 0.5, fewest: 10 });
    serve(9, 500);
    await vi.advanceTimersByTimeAsync(61_000);
    serve(20);
    expect(told).toEqual([]);
  });

  it("does not count what machines ask about its health", () => {
    open();
    for (let i = 0; i < 100; i++) watch.served(served({ route: "GET /readyz", status: 503, failed: true }));
    expect(told).toEqual([]);
  });

  it("does not count whom a server turns away that ends", () => {
    open({ sources: { models: () => [model], draining: () => true } });
    serve(100, 503);
    expect(told).toEqual([]);
  });

  it("sees a full queue and a failed engine by itself", async () => {
    open();
    model.waiting = 4;
    await vi.advanceTimersByTimeAsync(1000);
    expect(told).toEqual([
      { kind: "queue-full", server: "here", message: 'The queue of the model "shop" is full: 4 wait.' },
    ]);
    model.alive = false;
    await vi.advanceTimersByTimeAsync(1000);
    expect(kinds()).toEqual(["queue-full", "engine-failed"]);
  });

  it("sees a queue that is full for a moment only, when it turns somebody away", () => {
    open();
    model.waiting = 4;
    serve(1, 429);
    model.waiting = 0;
    expect(kinds()).toEqual(["queue-full"]);
  });

  it("tells of each kind once in a while, whatever becomes of the wall clock", async () => {
    open({ cooldownMs: 10_000 });
    model.waiting = 4;
    await vi.advanceTimersByTimeAsync(9000);
    vi.setSystemTime("2001-01-01T00:00:00Z");
    await vi.advanceTimersByTimeAsync(1000);
    expect(kinds()).toEqual(["queue-full"]);
    await vi.advanceTimersByTimeAsync(1000);
    expect(kinds()).toEqual(["queue-full", "queue-full"]);
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("no");
      },
    ],
    ["rejects", () => Promise.reject(new Error("no"))],
  ])("does not care when who is told %s", async (_, onAlert) => {
    open({ onAlert });
    model.waiting = 4;
    serve(1, 429);
    await vi.advanceTimersByTimeAsync(2000);
  });
});
