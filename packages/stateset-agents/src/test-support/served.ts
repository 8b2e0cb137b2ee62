import type { Served } from "../server/observe/observer.ts";

/** A request that was answered, for tests of what looks on. */
export function served(over: Partial<Served> = {}): Served {
  return {
    requestId: "req-1",
    route: "POST /v1/chat/completions",
    status: 200,
    model: "shop",
    failed: false,
    streamed: false,
    promptTokens: 10,
    cachedTokens: 4,
    sampledTokens: 3,
    durationMs: 25,
    aborted: false,
    requestBytes: 120,
    ...over,
  };
}
