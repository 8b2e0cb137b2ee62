import { afterEach, describe, expect, it } from "vitest";
import { serve } from "../../test/serve.ts";
import { storiesDir } from "../../test/tiny-model.ts";
import { loadNativePolicy } from "../policy/native/load.ts";
import { defaultSampling } from "../policy/policy.ts";
import { createStubPolicy } from "../policy/stub/stub-policy.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";

const path = "/v1/completions";
const open = () => loadNativePolicy({ dir: storiesDir, threads: 1 });
const asked = { model: "tiny", prompt: "Once upon", max_tokens: 40, min_tokens: 40, seed: 1 };
const failed = { status: 503, json: { error: { code: "engine_failed" } } };

describe("an engine that fails", () => {
  afterEach(() => {
    delete process.env.STATESET_ENGINE_FAILS;
  });

  it("is opened again, once; then the model is not ready", async () => {
    process.env.STATESET_ENGINE_FAILS = "9,60";
    const { ask, fetch } = await serve({ tiny: open });
    expect(await ask(path, asked)).toMatchObject(failed);
    await expect.poll(async () => (await fetch("/readyz")).status).toBe(200);
    const { status, json } = await ask(path, asked);
    expect([status, json.usage?.completion_tokens]).toEqual([200, 40]);
    expect(await ask(path, asked)).toMatchObject(failed);
    const ready = await fetch("/readyz");
    expect([ready.status, await ready.json()]).toEqual([
      503,
      { status: "not ready", reasons: [expect.stringContaining("failed")] },
    ]);
    expect(await ask(path, asked)).toMatchObject(failed);
    // Others than those who sample are told, too.
    expect((await ask("/tokenize", { model: "tiny", prompt: "a" })).status).toBe(503);
  });

  it("that was given open is its giver's to open", async () => {
    process.env.STATESET_ENGINE_FAILS = "1,1,5";
    const policy = await open();
    const { ask, fetch } = await serve({ tiny: policy });
    expect(await ask(path, asked)).toMatchObject(failed);
    expect((await fetch("/readyz")).status).toBe(503);
    await policy.close();
  });
});

describe("a served model", () => {
  it("says that it is a stub, and closes what it opened alone", async () => {
    const given = createTablePolicy();
    const made = createTablePolicy();
    const { server } = await serve({
      given,
      made: async () => made,
      "a/stub": createStubPolicy(),
      b: createStubPolicy(),
    });
    expect(server.models().map(({ name, stub }) => [name, stub])).toEqual([
      ["given", false],
      ["made", false],
      ["a/stub", true],
      ["b-stub", true],
    ]);
    await server.close();
    const request = { tokens: Int32Array.of(7), seed: 1, sampling: defaultSampling };
    await expect(given.sample([request])).resolves.toHaveLength(1);
    await expect(made.sample([request])).rejects.toMatchObject({ code: "POLICY_CLOSED" });
  });

  it("is found under its name, one with a slash too", async () => {
    const { ask } = await serve({ "team/small": createTablePolicy() });
    const { json } = await ask("/v1/models");
    expect(json.data).toMatchObject([{ id: "team/small", object: "model", max_model_len: 512 }]);
    for (const name of ["team/small", "team%2Fsmall"]) {
      expect((await ask(`/v1/models/${name}`)).json).toEqual(json.data[0]);
    }
    expect((await ask("/v1/models/none")).json.error.code).toBe("model_not_found");
  });
});
