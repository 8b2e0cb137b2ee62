import { getEventListeners } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { isAbort, linkSignals, onAbort, withDeadline, withGrace } from "./abort.ts";

const timedOut = () => new Error("too slow");

describe("withDeadline", () => {
  it("gives what the work gives, and leaves nothing behind", async () => {
    const { signal } = new AbortController();
    expect(await withDeadline(async () => 3, { timeoutMs: 1000, timedOut, signal })).toBe(3);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  it("rejects when time is up and tells the work, which may reject late without harm", async () => {
    let told = false;
    const work = async (signal: AbortSignal) => {
      signal.addEventListener("abort", () => {
        told = true;
      });
      await wait(20);
      throw new Error("late");
    };
    await expect(withDeadline(work, { timeoutMs: 1, timedOut })).rejects.toThrow("too slow");
    expect(told).toBe(true);
    await wait(30);
  });

  it("rejects at once when the signal fires, before or during", async () => {
    const stop = new AbortController();
    const hanging = withDeadline(() => new Promise(() => {}), { timeoutMs: 60_000, timedOut, signal: stop.signal });
    stop.abort();
    await expect(hanging).rejects.toSatisfy(isAbort);
    let ran = false;
    const late = withDeadline(
      () => {
        ran = true;
      },
      { timeoutMs: 60_000, timedOut, signal: stop.signal },
    );
    await expect(late).rejects.toSatisfy(isAbort);
    expect(ran).toBe(false);
  });
});

describe("withGrace", () => {
  it("waits as long as it takes, and not much longer than the signal", async () => {
    const stop = new AbortController();
    expect(await withGrace(() => wait(20, "done"), stop.signal, 1)).toBe("done");
    const hanging = withGrace(() => new Promise(() => {}), stop.signal, 10);
    stop.abort();
    await expect(hanging).rejects.toThrow("after it was told to stop");
    expect(await withGrace(() => "at once", stop.signal, 10)).toBe("at once");
    expect(getEventListeners(stop.signal, "abort")).toHaveLength(0);
  });
});

describe("onAbort", () => {
  it("tells everybody who waits, by one listener, and nobody who let go", () => {
    const stop = new AbortController();
    const told: number[] = [];
    const letGo = Array.from({ length: 40 }, (_, i) => onAbort(stop.signal, () => told.push(i)));
    expect(getEventListeners(stop.signal, "abort")).toHaveLength(1);
    for (const one of letGo.slice(2)) one();
    stop.abort();
    expect(told).toEqual([0, 1]);
    onAbort(stop.signal, () => told.push(99));
    expect(told).toEqual([0, 1, 99]);
  });

  it("leaves nothing behind once all have let go, and begins anew", () => {
    const { signal } = new AbortController();
    for (let round = 0; round < 2; round++) {
      const letGo = [1, 2].map(() => onAbort(signal, () => {}));
      letGo[0]!();
      letGo[0]!();
      expect(getEventListeners(signal, "abort")).toHaveLength(1);
      letGo[1]!();
      expect(getEventListeners(signal, "abort")).toHaveLength(0);
    }
  });
});

describe("linkSignals", () => {
  it("fires with any source, also one that has fired already", () => {
    const [a, b] = [new AbortController(), new AbortController()];
    const { signal } = linkSignals(a.signal, undefined, b.signal);
    b.abort("why");
    expect([signal.aborted, signal.reason]).toEqual([true, "why"]);
    expect(linkSignals(a.signal, b.signal).signal.aborted).toBe(true);
  });

  it("is forgotten by its sources when it is let go of", () => {
    const { signal } = new AbortController();
    for (let i = 0; i < 100; i++) linkSignals(signal).unlink();
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });
});
