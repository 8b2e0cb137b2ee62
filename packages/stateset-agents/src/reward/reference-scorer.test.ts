import { getMaxListeners, setMaxListeners } from "node:events";
import { expect, it } from "vitest";
import { stoppable } from "./reference-scorer.ts";

it("leaves a reward's signal as it was: with a limit of 0, undici does not take it on Node 20", () => {
  const { signal } = new AbortController();
  setMaxListeners(7, signal);
  stoppable(async () => ({}) as never, signal);
  expect(getMaxListeners(signal)).toBe(7);
});
