import { describe, expect, it } from "vitest";
import { breakerStates, createBreaker } from "./breaker.ts";

describe("a breaker", () => {
  it("is open from the last failure that counts to the first success, and shown by its target", () => {
    let now = 0;
    const breaker = createBreaker({ failures: 2, resetMs: 100 }, () => now, "http://judge.example/v1#m");
    const state = () => breakerStates().find(({ target }) => target === "http://judge.example/v1#m")?.open;
    breaker.report(false);
    expect([breaker.open, state()]).toEqual([false, false]);
    breaker.report(false);
    expect([breaker.open, state()]).toEqual([true, true]);
    now = 100;
    expect(breaker.waitMs()).toBe(0);
    expect(state()).toBe(true);
    breaker.report(true);
    expect([breaker.open, state(), breaker.opened]).toEqual([false, false, 1]);
  });

  it("that is open is not hidden by another before the same target", () => {
    const [one, other] = [1, 2].map(() => createBreaker({ failures: 1, resetMs: 100 }, () => 0, "same"));
    one!.report(false);
    expect(breakerStates()).toContainEqual({ target: "same", open: true, opened: 1 });
    one!.report(true);
    other!.report(false);
    expect(breakerStates()).toContainEqual({ target: "same", open: true, opened: 2 });
  });
});
