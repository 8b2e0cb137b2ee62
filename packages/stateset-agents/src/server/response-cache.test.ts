import { describe, expect, it } from "vitest";
import { type CachedRequest, createResponseCache, responseKey } from "./response-cache.ts";

const request: CachedRequest = {
  keyId: "ab12",
  model: "shop",
  version: "abc:3",
  temperature: 0,
  seed: undefined,
  body: { messages: [{ role: "user", content: "hello" }], max_tokens: 5 },
};
const key = (over: Partial<CachedRequest> = {}) => responseKey({ ...request, ...over });

describe("responseKey", () => {
  it("is given to greedy and to seeded requests alone", () => {
    expect(key()).toBeTypeOf("string");
    expect(key({ temperature: 0.7, seed: 0 })).toBeTypeOf("string");
    expect(key({ temperature: 0.7 })).toBeUndefined();
  });

  it("is the same for the same request, however its keys are ordered", () => {
    expect(key({ body: { max_tokens: 5, messages: [{ content: "hello", role: "user" }] } })).toBe(key());
  });

  it.each<[string, Partial<CachedRequest>]>([
    ["another key", { keyId: "ab13" }],
    ["no key", { keyId: undefined }],
    ["a key called null", { keyId: "null" }],
    ["another model", { model: "shop2" }],
    ["another version", { version: "abc:4" }],
    ["another temperature", { temperature: 1, seed: 0 }],
    ["a seed", { seed: 1 }],
    ["other messages", { body: { messages: [{ role: "user", content: "hallo" }], max_tokens: 5 } }],
    ["another limit", { body: { messages: [{ role: "user", content: "hello" }], max_tokens: 6 } }],
    ["parts that only read the same", { keyId: "ab12,shop", model: "" }],
    [
      "a content that spells a field",
      { body: { messages: [{ role: "user", content: 'hello","x":"' }], max_tokens: 5 } },
    ],
  ])("is another for %s", (_, over) => {
    expect(key(over)).not.toBe(key());
  });

  it("tells messages in another order apart", () => {
    expect(key({ body: { messages: [1, 2] } })).not.toBe(key({ body: { messages: [2, 1] } }));
  });
});

describe("createResponseCache", () => {
  it("gives back what was kept, and the later of two replies", () => {
    const cache = createResponseCache({ entries: 4, bytes: 1000 });
    expect(cache.get("a")).toBeUndefined();
    cache.set("a", "one");
    cache.set("a", "four");
    expect(cache.get("a")).toBe("four");
    expect([cache.entries, cache.bytes]).toEqual([1, 5]);
  });

  it("lets go of what was not asked for longest, by number", () => {
    const cache = createResponseCache({ entries: 2, bytes: 1000 });
    cache.set("a", "1");
    cache.set("b", "2");
    cache.get("a");
    cache.set("c", "3");
    expect(["a", "b", "c"].map((one) => cache.get(one))).toEqual(["1", undefined, "3"]);
  });

  it("lets go by bytes as they are stored, and keeps nothing that is larger than all of it", () => {
    const cache = createResponseCache({ entries: 100, bytes: 20 });
    cache.set("a", "x".repeat(9));
    cache.set("b", "ä".repeat(4));
    expect(cache.bytes).toBe(19);
    cache.set("c", "x");
    expect([cache.get("a"), cache.entries, cache.bytes]).toEqual([undefined, 2, 11]);
    cache.set("b", "x".repeat(20));
    expect([cache.get("b"), cache.get("c"), cache.bytes]).toEqual([undefined, "x", 2]);
  });

  it("keeps nothing when it may hold nothing", () => {
    const cache = createResponseCache({ entries: 0, bytes: 100 });
    cache.set("a", "1");
    expect([cache.get("a"), cache.entries, cache.bytes]).toEqual([undefined, 0, 0]);
  });
});
