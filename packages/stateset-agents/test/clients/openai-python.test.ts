/** OpenAI's own client for Python, as it is. Needs STATESET_PYTHON, and the package `openai` there. */
import { execFile, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { endlessReplies, realServer } from "./real-server.ts";

const python = process.env.STATESET_PYTHON;
const has = python !== undefined && spawnSync(python, ["-c", "import openai"]).status === 0;
const script = fileURLToPath(new URL("./openai_client.py", import.meta.url));

describe.skipIf(!has)("openai for Python (set STATESET_PYTHON to a Python with openai)", () => {
  const real = realServer();

  it("chats, streams, calls, follows schemas, leaves, fails and comes again", async () => {
    const { baseURL, apiKey, poorKey, sent } = real;
    const { stdout } = await promisify(execFile)(python!, [script, baseURL, apiKey, poorKey]);
    const told = JSON.parse(stdout);
    const calls = [
      ["call00001", "get_order", { order_id: "4821" }],
      ["call00002", "get_order", { order_id: "5930" }],
    ];
    expect(told).toMatchObject({
      words: expect.stringMatching(/\w/),
      streamed: told.words,
      usage: [expect.any(Number), told.usage[0]],
      models: ["starter", "shop-stub", "endless-stub", "broken-stub"],
      calls,
      answer: "I found: result 0 and result 1.",
      streamedCalls: calls,
      verdict: { mood: expect.stringMatching(/^(good|bad)$/), stars: expect.any(Number) },
      afterFull: "length",
      left: true,
    });
    expect(new Set(told.logprobs)).toEqual(new Set([2]));
    expect(told.errors).toEqual([
      ["AuthenticationError", "invalid_api_key"],
      ["NotFoundError", "model_not_found"],
      ["BadRequestError", "invalid_value"],
      ["RateLimitError", "rate_limit_exceeded"],
      ["APIStatusError", "deadline_exceeded"],
      ["APIError", "deadline_exceeded"],
      ["InternalServerError", "internal_error"],
    ]);
    await endlessReplies(real, 0);
    // It came again after a failure, not where it was told not to; and after a full queue as late as it was told.
    const refused = sent.filter(({ status }) => status >= 400);
    const full = refused
      .slice(7)
      .filter(({ status }) => status === 429)
      .map(({ headers }) => Number(headers.get("retry-after-ms")));
    expect(refused.slice(0, 7).map(({ status }) => status)).toEqual([401, 404, 400, 429, 408, 500, 500]);
    expect(full.length).toBeGreaterThan(0);
    expect(told.slept).toEqual(full);
  });
});
