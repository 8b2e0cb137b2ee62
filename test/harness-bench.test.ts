/** The proof of `npm run proof:harness` in small: agents of both SDKs, as they are, are recorded whole. */
import { describe, expect, it } from "vitest";
import { type ClientName, clients } from "../benchmarks/harness/clients.ts";
import { learnHarness } from "../benchmarks/harness/learn.ts";

describe("an unmodified agent", { timeout: 120_000 }, () => {
  it.each(Object.keys(clients) as ClientName[])(
    "of %s calls tools in streams, and goes on from its own tokens",
    async (client) => {
      const { calls, continued, conversations, lost, before } = await learnHarness({
        client,
        seed: 1,
        sign: 1,
        quick: true,
      });
      expect({ conversations, lost }).toEqual({ conversations: 8, lost: 0 });
      expect(before).toHaveLength(6);
      // Only the first call of a conversation begins a chain.
      expect(calls).toBeGreaterThan(conversations);
      expect(continued).toBe(calls - conversations);
    },
  );
});
