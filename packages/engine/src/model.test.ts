import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { config, randomModel, request, sample, tokens } from "../test/random-model.ts";
import { openModel } from "./model.ts";

describe("sampling in the engine", () => {
  it("computes a prompt once for a group that asks for it together", async () => {
    const model = await randomModel();
    const replies = await Promise.all([1, 2, 3, 4, 5].map((seed) => sample(model, request(tokens(300), seed))));
    expect(replies.map(({ cached }) => cached)).toEqual([0, 299, 299, 299, 299]);
  });

  it("computes only the new tokens of the next turn", async () => {
    const model = await randomModel();
    const first = await sample(model, request(tokens(40)));
    const prompt = Int32Array.of(...tokens(40), ...first.tokens, ...tokens(5, 3));
    // The reply's last token was drawn but never run.
    expect((await sample(model, request(prompt))).cached).toBe(40 + 9);
  });

  it("finds a shared beginning inside another prompt", async () => {
    const model = await randomModel();
    await sample(model, request(tokens(100)));
    const other = Int32Array.of(...tokens(60), ...tokens(20, 31));
    expect((await sample(model, request(other))).cached).toBe(60);
  });

  it("forgets what it computed when the weights change", async () => {
    const model = await randomModel();
    await sample(model, request(tokens(50)));
    await model.setTensor("final_norm.weight", new Float32Array(32).fill(0.5));
    expect((await sample(model, request(tokens(50)))).cached).toBe(0);
  });

  it("keeps within its memory and drops the oldest", async () => {
    const model = await randomModel();
    await sample(model, request(tokens(100)));
    const { cache } = await model.memory();
    const small = await randomModel({ cacheBytes: Math.floor(cache * 2.5) });
    for (let i = 0; i < 6; i++) await sample(small, request(tokens(100, i + 1)));
    expect((await small.memory()).cache).toBeLessThanOrEqual(cache * 2.5);
    expect((await sample(small, request(tokens(100, 6)))).cached).toBe(99);
    expect((await sample(small, request(tokens(100, 1)))).cached).toBe(0);
  });

  it("serves many more requests than it has slots, and replies longer than a block", async () => {
    const model = await randomModel({ slots: 3 });
    const requests = Array.from({ length: 40 }, (_, i) => request(tokens(10 + i, i), i, i === 0 ? 400 : 20));
    const together = await Promise.all(requests.map((r) => sample(model, r)));
    expect(together[0]!.tokens.length).toBe(400);
    for (const i of [0, 17, 39]) {
      const { tokens: drawn, logprobs } = await sample(model, requests[i]!);
      expect({ drawn, logprobs }).toEqual({ drawn: together[i]!.tokens, logprobs: together[i]!.logprobs });
    }
  });

  it("ends at a stop token, or at the end of the context", async () => {
    const model = await randomModel();
    const free = await sample(model, request(tokens(8), 3, 30));
    const stop = free.tokens[7]!;
    const cut = await sample(model, { ...request(tokens(8), 3, 30), stopTokens: Int32Array.of(stop) });
    expect(cut.finish).toBe("stop");
    expect(cut.tokens).toEqual(free.tokens.slice(0, free.tokens.indexOf(stop) + 1));
    const full = await sample(model, request(tokens(505), 1, 30));
    expect([full.finish, full.tokens.length]).toEqual(["length", 7]);
  });

  it("cancels what waits and what runs", async () => {
    // Long enough that no machine is done before it is told to stop.
    const model = await randomModel({ slots: 1 }, { maxPositions: 1 << 17 });
    const running = model.sample(request(tokens(8), 1, 100_000));
    const waiting = model.sample(request(tokens(8, 1), 1, 100_000));
    waiting.cancel();
    running.cancel();
    expect((await waiting.reply).finish).toBe("aborted");
    expect((await running.reply).finish).toBe("aborted");
    expect((await sample(model, request(tokens(8)))).finish).toBe("length");
  });

  it("reports bad arguments and shapes as errors with a code", async () => {
    const model = await randomModel();
    await expect(sample(model, request(new Int32Array(0)))).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(sample(model, request(Int32Array.of(64)))).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(sample(model, request(tokens(512)))).rejects.toMatchObject({ code: "CONTEXT_OVERFLOW" });
    await expect(sample(model, { ...request(tokens(4)), topK: 0.5 })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(model.setTensor("embed", new Float32Array(3))).rejects.toMatchObject({ code: expect.any(String) });
    await expect(model.readTensor("nothing")).rejects.toMatchObject({ code: "UNKNOWN_TENSOR" });
    await expect(openModel({ ...config, hidden: 0 }, { threads: 1, slots: 1, cacheBytes: 0 })).rejects.toMatchObject({
      code: "INVALID_CONFIG",
    });
    const norm = (value: number) => model.setTensor("final_norm.weight", new Float32Array(32).fill(value));
    await expect(norm(Number.NaN)).rejects.toMatchObject({ code: "NOT_FINITE" });
    await norm(3e38);
    await expect(sample(model, request(tokens(4)))).rejects.toMatchObject({ code: "NOT_FINITE" });
  });
});

describe("a process with an open model", () => {
  const library = fileURLToPath(new URL("../dist/stateset-engine.node", import.meta.url));
  const script = (body: string) => `
    const engine = require(${JSON.stringify(library)});
    const config = ${JSON.stringify(config)};
    const request = { tokens: Int32Array.of(1, 2), temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1,
      maxTokens: 500, stopTokens: new Int32Array(), seed: 1, stream: true };
    const open = () => engine.open(config, { threads: 2, slots: 4, cacheBytes: 1e8 }, () => {});
    ${body}`;
  const run = (body: string, args: string[] = [], env = {}) =>
    execFileSync(process.execPath, [...args, "-e", script(body)], {
      encoding: "utf8",
      timeout: 30_000,
      env: { ...process.env, ...env },
    });

  it("ends by itself when nothing is pending", () => {
    const body = `open().then(({ handle }) => engine.sample(handle, 1, request)).then((r) => console.log(r.tokens.length));`;
    expect(run(body).trim()).toBe("500");
  });

  it("can exit in the middle of sampling", () => {
    expect(run(`open().then(({ handle }) => { engine.sample(handle, 1, request); process.exit(0); });`)).toBe("");
  });

  it("survives a worker that is terminated in the middle of sampling", () => {
    const worker = script(`open().then(({ handle }) => { for (let i = 1; i < 9; i++) engine.sample(handle, i, request);
      require("node:worker_threads").parentPort.postMessage("started"); });`);
    const body = `
      const { Worker } = require("node:worker_threads");
      const worker = new Worker(${JSON.stringify(worker)}, { eval: true });
      worker.on("message", async () => { await worker.terminate(); console.log("terminated"); });`;
    expect(run(body).trim()).toBe("terminated");
  });

  it("survives a worker that is terminated in the middle of a pass longer than it waits for", () => {
    // Several seconds on any machine.
    const worker = script(`
      const big = { ...config, hidden: 512, heads: 8, kvHeads: 8, headDim: 64, inter: 2048, layers: 8, maxPositions: 4096 };
      const n = 4096, wanted = new Uint8Array(n).fill(1);
      const batch = { tokens: new Int32Array(n), nodeStart: Int32Array.of(0, n), nodeParent: Int32Array.of(-1), wanted };
      const wants = { grad: false, entropy: false, values: false, hidden: false, adapters: true, recompute: false,
        temperature: 1 };
      engine.open(big, { threads: 1, slots: 1, cacheBytes: 0 }, () => {}).then(({ handle }) => {
        for (let i = 0; i < 3; i++) engine.forward(handle, batch, wants).catch(() => {});
        require("node:worker_threads").parentPort.postMessage("started");
      });`);
    const body = `
      const { Worker } = require("node:worker_threads");
      const worker = new Worker(${JSON.stringify(worker)}, { eval: true });
      worker.on("message", async () => {
        await worker.terminate();
        // Longer than what was left of the pass.
        setTimeout(() => console.log("survived"), 4000);
      });`;
    expect(run(body).trim()).toBe("survived");
  });

  it("fails cleanly when the engine's thread cannot start", () => {
    const body = `
      open().catch((error) => console.log(error.code, error.message));`;
    // More stack than there is address space.
    const said = run(body, [], { RUST_MIN_STACK: String(2n ** 62n) });
    expect(said).toMatch(/^ENGINE_FAILED The engine's thread could not start/);
  });

  it("frees a forward pass that is forgotten without release", () => {
    const body = `(async () => {
      const { handle } = await open();
      await engine.setTrainable(handle, "full");
      const n = 512, wanted = new Uint8Array(n).fill(1);
      const batch = { tokens: new Int32Array(n), nodeStart: Int32Array.of(0, n), nodeParent: Int32Array.of(-1), wanted };
      const wants = { grad: true, entropy: false, values: false, hidden: false, adapters: true, recompute: false,
        temperature: 1 };
      for (let i = 0; i < 20; i++) await engine.forward(handle, batch, wants);
      const kept = await engine.forward(handle, batch, wants);
      const before = (await engine.memory(handle)).passes;
      for (let i = 0; i < 3; i++) { global.gc(); await new Promise((r) => setTimeout(r, 20)); }
      const after = (await engine.memory(handle)).passes;
      await engine.backward(handle, kept.pass, { logprobs: new Float32Array(n), valuesIntoTrunk: true });
      console.log(after > 0 && after <= before / 10, (await engine.memory(handle)).passes);
    })();`;
    expect(run(body, ["--expose-gc"]).trim()).toBe("true 0");
  });

  it("discards a load that is forgotten", () => {
    const body = `(async () => {
      const { handle } = await open();
      const norm = () => new Float32Array(32).fill(1);
      await engine.setTensor(handle, "final_norm.weight", norm());
      await engine.loadTensor(handle, await engine.beginLoad(handle, false), "final_norm.weight", norm());
      const held = (await engine.memory(handle)).retained;
      for (let i = 0; i < 3; i++) { global.gc(); await new Promise((r) => setTimeout(r, 20)); }
      console.log(held > 0, (await engine.memory(handle)).retained);
    })();`;
    expect(run(body, ["--expose-gc"]).trim()).toBe("true 0");
  });

  it("gives back the memory of models that were dropped without close", () => {
    const body = `(async () => {
      const big = { ...config, vocab: 65536, hidden: 128 };
      for (let i = 0; i < 12; i++) {
        let opened = await engine.open(big, { threads: 1, slots: 1, cacheBytes: 0 }, () => {});
        await engine.setTensor(opened.handle, "embed", new Float32Array(65536 * 128).fill(1));
        opened = undefined;
        global.gc(); await new Promise((r) => setTimeout(r, 20)); global.gc();
      }
      await new Promise((r) => setTimeout(r, 200));
      console.log(process.memoryUsage.rss() < 300e6);
    })();`;
    // Twelve embeddings are 400 MB.
    expect(run(body, ["--expose-gc"]).trim()).toBe("true");
  });
});
