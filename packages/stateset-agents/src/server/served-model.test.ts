import { afterEach, describe, expect, it } from "vitest";
import { gated } from "../../test/gated-policy.ts";
import { serve, waitingIn } from "../../test/serve.ts";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { storiesDir } from "../../test/tiny-model.ts";
import { StatesetError } from "../error.ts";
import { loadNativePolicy } from "../policy/native/load.ts";
import { defaultSampling, type Policy } from "../policy/policy.ts";
import { createStubPolicy } from "../policy/stub/stub-policy.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { readLimits } from "../tool/constrain/limits.ts";
import { ServedModel } from "./served-model.ts";

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

  it("has the weights again that were loaded meanwhile", async () => {
    const loaded = createTablePolicy({ seed: 2 });
    const folder = temporaryFolder();
    await loaded.save(folder);
    const again = createTablePolicy({ seed: 1 });
    const opens = [failing(), again];
    const { ask, fetch, server } = await serve({ table: async () => opens.shift()! });
    await server.load("table", folder);
    expect(await ask(path, inTable)).toMatchObject(failed);
    await expect.poll(async () => (await fetch("/readyz")).status).toBe(200);
    expect(again.parameters).toEqual(loaded.parameters);
  });

  it("that is being opened again when its server is closed is closed once it is open, and nobody waits for it", async () => {
    const late = createTablePolicy();
    let arrive = (_: Policy) => {};
    const opens = [Promise.resolve(failing()), new Promise<Policy>((settle) => (arrive = settle))];
    const { ask, server } = await serve({ table: () => opens.shift()! });
    expect(await ask(path, inTable)).toMatchObject(failed);
    await server.close();
    arrive(late);
    await expect.poll(() => late.embed!([Int32Array.of(7)]).catch((error) => error.code)).toBe("POLICY_CLOSED");
  });

  it("serves those who wait once it is open again, not with what they would have had before", async () => {
    const gate = gated(failing());
    let arrive = (_: Policy) => {};
    const opens = [Promise.resolve(gate.policy), new Promise<Policy>((settle) => (arrive = settle))];
    const client = await serve({ table: () => opens.shift()! });
    const { ask, fetch } = client;
    const running = [ask(path, inTable), ask(path, inTable)];
    await expect.poll(() => gate.asked).toBe(2);
    const leaving = new AbortController();
    const gone = ask(path, inTable, { signal: leaving.signal });
    const late = ask(path, { ...inTable, deadline: 500 });
    const waiting = ask(path, inTable);
    await expect.poll(() => waitingIn(client, "table")).toBe(3);
    gate.open();
    for (const one of running) expect(await one).toMatchObject(failed);
    expect((await fetch("/readyz")).status).toBe(503);
    leaving.abort();
    expect((await gone).status).toBe(499);
    expect(await late).toMatchObject({ status: 408, json: { error: { code: "deadline_exceeded" } } });
    arrive(createTablePolicy());
    expect((await waiting).status).toBe(200);
  });

  it("tells those who wait where it could not be opened again, or another model was: their tokens are none of its", async () => {
    for (const next of [
      () => Promise.reject(new Error("gone")),
      async () => createTablePolicy({ contextLength: 64 }),
    ]) {
      const gate = gated(failing());
      const opens = [async () => gate.policy, next];
      const client = await serve({ table: () => opens.shift()!() });
      const asked = [1, 2, 3].map(() => client.ask(path, inTable));
      await expect.poll(() => waitingIn(client, "table")).toBe(1);
      gate.open();
      for (const one of asked) expect(await one).toMatchObject(failed);
    }
  });

  it("does not hide the other models", async () => {
    const { ask, server } = await serve({ table: failing(), other: createTablePolicy() });
    expect(await ask(path, inTable)).toMatchObject(failed);
    expect((await ask("/v1/models")).json.data).toMatchObject([{ id: "other" }]);
    expect(server.models()).toMatchObject([{ name: "other" }]);
  });
});

const inTable = { model: "table", prompt: "order", max_tokens: 2 };

/** Its engine fails at the first sample. */
function failing(): Policy {
  const policy = createTablePolicy({ seed: 1 });
  let gone = false;
  const sample: Policy["sample"] = async () => {
    gone = true;
    throw new StatesetError("ENGINE_FAILED", "It failed.");
  };
  return Object.assign(Object.create(policy) as Policy, { sample, stats: () => ({ ...policy.stats(), failed: gone }) });
}

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

  it("gives the making of a constraint as long as it is told to", async () => {
    const limited = { name: "tiny", source: open, maxWaiting: 1, shared: false, constraintMs: 1 };
    const schema = { type: "array", items: { type: "array", items: { type: "string", minLength: 30 } } };
    const model = await ServedModel.open(limited);
    const slow = model.constraint("key", { tools: [], limits: readLimits(true), reasoning: false, answer: { schema } });
    await expect(slow).rejects.toThrow(/longer than 1 ms/);
    await model.close();
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
