/** What becomes of a policy when its worker is lost, and what a real worker refuses. Needs STATESET_PYTHON. */
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { readVector } from "../../../test/read-vector.ts";
import { tsx } from "../../../test/spawn-cli.ts";
import { makeTinyModel, storiesDir, temporaryFolder } from "../../../test/tiny-model.ts";
import { python, TorchWorkers } from "../../../test/torch-workers.ts";
import { defaultSampling, type Policy, type TokenTree } from "../policy.ts";
import { loadTorchPolicy } from "./load.ts";
import { spawnWorker } from "./spawn.ts";

const tokens = Int32Array.from({ length: 30 }, (_, i) => 5 + i);
const tree: TokenTree = {
  tokens,
  nodeStart: Int32Array.of(0, 30),
  nodeParent: Int32Array.of(-1),
  wanted: Uint8Array.from(tokens, (_, i) => (i > 0 ? 1 : 0)),
};
const scores = async (policy: Policy) => (await policy.forward(tree, { grad: false })).logprobs;

async function learn(policy: Policy): Promise<void> {
  const pass = await policy.forward(tree);
  await policy.backward(pass, { logprobs: pass.logprobs.map((logprob) => (logprob === 0 ? 0 : -0.1)) });
  await policy.step({ learningRate: 1e-3 });
}

const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe.skipIf(!python)("a real worker", { timeout: 300_000 }, () => {
  const workers = new TorchWorkers();

  it("of two ranks is lost with one of them, told apart, and goes on from a snapshot in another worker", async () => {
    const logDir = temporaryFolder();
    const policy = await loadTorchPolicy({ dir: storiesDir, torch: { device: "cpu", gpus: 2, logDir } });
    expect(policy.capabilities).toMatchObject({ ranks: 2, exact: false });
    const start = await policy.reference();
    const atStart = await scores(policy);
    await learn(policy);
    const dir = temporaryFolder();
    await policy.snapshot(dir);
    const { version } = policy;
    const there = await readVector(policy, "parameters");
    const moved = await policy.reference();
    const pass = await policy.forward(tree);
    const vector = await policy.vector("parameters");

    const { pids } = policy.worker;
    expect(pids).toHaveLength(2);
    const sample = { tokens, sampling: { ...defaultSampling, maxTokens: 400 }, seed: 1 };
    const working = policy.sample([sample, sample], { onToken: () => void process.kill(pids[1]!, "SIGKILL") });
    const lost = { code: "WORKER_LOST", message: expect.stringMatching(/rank 1 ended by SIGKILL/) };
    await expect(working).rejects.toMatchObject(lost);
    await expect(scores(policy)).rejects.toMatchObject(lost);
    expect(pids.filter(isAlive)).toEqual([]);

    await policy.revive();
    expect(policy.version).toBe(start.version);
    expect(await scores(policy)).toEqual(atStart);
    expect(await policy.restore(dir)).toMatchObject({ version });
    expect(await readVector(policy, "parameters")).toEqual(there);
    // What files hold is made again; what was nowhere else is gone.
    expect(await start.logprobs(tree)).toEqual(atStart);
    const gone = { code: "WORKER_LOST", message: expect.stringContaining("lost with the worker") };
    await expect(moved.logprobs(tree)).rejects.toMatchObject(gone);
    await expect(policy.backward(pass, {})).rejects.toMatchObject(gone);
    await expect(vector.read()).rejects.toMatchObject(gone);
    vector.release();
    const again = policy.worker.pids;
    await policy.close();
    await expect.poll(() => again.filter(isAlive)).toEqual([]);
  });

  it("that stands still is lost after three heartbeats, and ended", async () => {
    const stopped = temporaryFolder();
    const logDir = temporaryFolder();
    const options = { device: "cpu", ranks: 1, deadlineMs: 60_000, logDir } as const;
    const { connection, hello } = await spawnWorker({ ...options, pingMs: 300 });
    const { fields } = await connection.call("stacks");
    expect(fields.text).toContain("Thread");
    await expect(connection.call("open", { model: stopped, adapter: null, lora: null })).rejects.toThrow();
    process.kill(hello.pids[0]!, "SIGSTOP");
    const message = expect.stringMatching(/3 heartbeats/);
    await expect(connection.call("open", {})).rejects.toMatchObject({ code: "WORKER_LOST", message });
    expect(isAlive(hello.pids[0]!)).toBe(false);
  });

  it.each([
    [
      1,
      /got nowhere with zeroGradients .*, and rank 1 did not say where/,
      /Rank 0:\n.*in (share|gather).*Rank 1:\n\(no answer\)/s,
    ],
    [
      0,
      /3 heartbeats without an answer, and rank 0 did not say where/,
      /Rank 0:\n\(no answer\)\nRank 1:\n.*in (share|gather)/s,
    ],
  ])(
    "of two ranks that is lost to a stop of rank %i says which one it was, and what both were doing",
    async (rank, message, hint) => {
      const { connection, hello } = await spawnWorker({ device: "cpu", ranks: 2, deadlineMs: 200_000, pingMs: 300 });
      await connection.call("open", { model: storiesDir, adapter: null, lora: null });
      process.kill(hello.pids[rank]!, "SIGSTOP");
      const waiting = connection.call("zeroGradients");
      // The deadline is over at once.
      const now = performance.now();
      if (rank === 1) vi.spyOn(performance, "now").mockReturnValue(now + 300_000);
      await expect(waiting).rejects.toMatchObject({
        ...{ code: "WORKER_LOST", message: expect.stringMatching(message), hint: expect.stringMatching(hint) },
      });
      vi.restoreAllMocks();
      await expect.poll(() => hello.pids.filter(isAlive)).toEqual([]);
    },
  );

  it.each([
    ["killed", 2, "wait"],
    ["done, and does not wait for what nobody closed", 1, "end"],
  ])("does not outlive its parent that is %s", async (_, ranks, then) => {
    const owner = fileURLToPath(new URL("../../test-support/worker-owner.ts", import.meta.url));
    const child = spawn(process.execPath, ["--import", tsx, owner, storiesDir, String(ranks), then], {
      stdio: ["ignore", "pipe", "inherit"],
      // Who is killed leaves its folder.
      env: { ...process.env, TMPDIR: temporaryFolder() },
    });
    const ended = new Promise((resolve) => child.once("exit", resolve));
    let pids: number[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      if (!line.startsWith("pids ")) continue;
      pids = JSON.parse(line.slice(5)) as number[];
      if (then === "wait") child.kill("SIGKILL");
    }
    await ended;
    expect(pids).toHaveLength(ranks);
    await expect.poll(() => pids.filter(isAlive)).toEqual([]);
  });

  it("refuses a wrong token, and lives on", async () => {
    await (await workers.open({ dir: storiesDir })).close();
    vi.stubEnv("STATESET_WORKER_TOKEN", "another token");
    await expect(workers.open({ dir: storiesDir })).rejects.toMatchObject({
      code: "WORKER_REFUSED",
      message: expect.stringMatching(/token.*STATESET_WORKER_TOKEN/),
    });
    vi.unstubAllEnvs();
    await (await workers.open({ dir: storiesDir })).close();
  });

  it("refuses a model it does not know, an adapter it cannot make, and weights that are not there", async () => {
    const unknown = await makeTinyModel("llama");
    const config = join(unknown, "config.json");
    writeFileSync(config, readFileSync(config, "utf8").replace('"llama"', '"nonsense"'));
    await expect(workers.open({ dir: unknown })).rejects.toMatchObject({ code: "MODEL_UNSUPPORTED" });
    const lora = { rank: 2, alpha: 4, dropout: 0, targetModules: ["nonsense_proj"] };
    await expect(workers.open({ dir: storiesDir, lora })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining("nonsense_proj"),
    });
    const policy = await workers.open({ dir: storiesDir });
    await expect(policy.restore(temporaryFolder())).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    await expect(policy.step({ learningRate: 1, loraPlusRatio: 2 })).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await policy.close();
  });
});
