import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it, vi } from "vitest";
import { tsx } from "../../../test/spawn-cli.ts";
import { storiesDir, temporaryFolder } from "../../../test/tiny-model.ts";
import { openPolicy } from "../open-policy.ts";
import { findPython, gpuFolder, workerFolder } from "./find-python.ts";
import { loadTorchPolicy } from "./load.ts";
import type { TorchOptions } from "./torch-options.ts";

const fakePython = fileURLToPath(new URL("../../test-support/fake-python.mjs", import.meta.url));
const token = "a-very-secret-token-of-the-tests";

afterEach(() => vi.unstubAllEnvs());

/** Opens a model with a Python that does as it is told. */
function open(script: Record<string, unknown>, torch: TorchOptions = {}) {
  vi.stubEnv("FAKE_PYTHON", JSON.stringify(script));
  vi.stubEnv("STATESET_WORKER_TOKEN", token);
  return loadTorchPolicy({ dir: storiesDir, torch: { device: "cpu", python: fakePython, ...torch } });
}

const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe("finding Python", () => {
  it("takes what is named, the environment's, that of setup-gpu, then python3, and says what to do without any", () => {
    const dir = temporaryFolder();
    const own = join(dir, "stateset-agents", "gpu", ".venv", "bin");
    mkdirSync(own, { recursive: true });
    for (const file of [join(dir, "python3"), join(dir, "named")]) writeFileSync(file, "");
    const env = { PATH: dir, XDG_CACHE_HOME: dir };
    expect(gpuFolder(env)).toBe(join(dir, "stateset-agents", "gpu"));
    expect(findPython(undefined, env)).toBe(join(dir, "python3"));
    writeFileSync(join(own, "python"), "");
    expect(findPython(undefined, env)).toBe(join(own, "python"));
    expect(findPython(undefined, { ...env, STATESET_PYTHON: join(dir, "named") })).toBe(join(dir, "named"));
    expect(findPython("python3", env)).toBe("python3");
    const missing = expect.objectContaining({ code: "ENGINE_UNAVAILABLE", hint: expect.stringContaining("setup-gpu") });
    expect(() => findPython(join(dir, "none"), env)).toThrowError(missing);
    expect(() => findPython(undefined, { STATESET_PYTHON: "none", PATH: dir })).toThrowError(missing);
    expect(() => findPython(undefined, { PATH: join(dir, "empty"), XDG_CACHE_HOME: join(dir, "empty") })).toThrowError(
      missing,
    );
    expect(() => workerFolder(dir)).toThrowError(expect.objectContaining({ code: "ENGINE_UNAVAILABLE" }));
  });
});

describe("a worker that cannot be had is an error that says what to do", () => {
  it.each<[string, Record<string, unknown>, TorchOptions, string, RegExp]>([
    [
      "no torch",
      { says: "ModuleNotFoundError: No module named 'torch'\n", exitCode: 1 },
      {},
      "ENGINE_UNAVAILABLE",
      /has no torch\..*setup-gpu/,
    ],
    ["no transformers", { hello: { transformers: null } }, {}, "ENGINE_UNAVAILABLE", /has no transformers.*setup-gpu/],
    ["no peft", { hello: { peft: null } }, {}, "ENGINE_UNAVAILABLE", /has no peft/],
    [
      "too few GPUs",
      { says: "stateset-agents-worker: rank 3 wants GPU 3, and this machine shows 1.\n", exitCode: 1 },
      { device: "cuda", gpus: 4 },
      "ENGINE_UNAVAILABLE",
      /4 GPUs are asked for, and PyTorch sees 1\. Ask for fewer/,
    ],
    ["no CUDA", {}, { device: "cuda" }, "ENGINE_UNAVAILABLE", /sees no GPU.*nvidia-smi.*setup-gpu/],
    ["no GPU for four bits", {}, { quantise: "nf4" }, "ENGINE_UNAVAILABLE", /nf4.*no GPU/],
    [
      "no bitsandbytes",
      { hello: { device: "cuda" } },
      { device: "cuda", quantise: "nf4" },
      "ENGINE_UNAVAILABLE",
      /nf4.*the worker has no bitsandbytes.*install bitsandbytes/,
    ],
    ["another version", { hello: { version: "9.9.9" } }, {}, "WORKER_REFUSED", /9\.9\.9.*setup-gpu/],
    ["another protocol", { hello: { protocol: 2 } }, {}, "WORKER_REFUSED", /protocol 2/],
    ["no greeting", { hello: { world: "one" } }, {}, "WORKER_REFUSED", /greeting.*world/],
    ["what it says of the model is nonsense", { info: { vocabSize: "many" } }, {}, "ENGINE_FAILED", /vocabSize/],
    [
      "an end of its own",
      { says: "one\ntwo\n", exitCode: 3 },
      {},
      "ENGINE_UNAVAILABLE",
      /exit code 3 before it was ready.*one\n.*two/s,
    ],
    ["a program that is no program", {}, { python: storiesDir }, "ENGINE_UNAVAILABLE", /could not be started/],
  ])("%s", async (_, script, torch, code, message) => {
    await expect(open(script, torch)).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
  });
});

it.each([
  ["its policy", {}],
  ["a policy that cannot be opened", { info: { digest: "" } }],
])("ends with %s, and leaves nothing behind", async (_, script) => {
  const logDir = temporaryFolder();
  const opening = open({ says: "pid $PID, $ARGV\n", ...script }, { logDir });
  await opening.then(
    (policy) => policy.close(),
    () => {},
  );
  const [, pid, folder] = /^pid (\d+).* --socket (\S+)\/socket/.exec(readFileSync(join(logDir, "worker.log"), "utf8"))!;
  expect(isAlive(Number(pid))).toBe(false);
  expect(existsSync(folder!)).toBe(false);
});

it("says where it can put neither its socket nor its log, and leaves nothing behind", async () => {
  const dir = temporaryFolder();
  const failed = (message: RegExp) => ({ code: "WRITE_FAILED", message: expect.stringMatching(message) });
  vi.stubEnv("TMPDIR", dir);
  await expect(open({}, { logDir: "/dev/null/logs" })).rejects.toMatchObject(failed(/torch\.logDir .*another folder/));
  expect(readdirSync(dir)).toEqual([]);
  vi.stubEnv("TMPDIR", join(dir, "none"));
  await expect(open({})).rejects.toMatchObject(failed(/socket.*ENOENT.*TMPDIR/));
  const long = join(dir, "x".repeat(100 - dir.length));
  mkdirSync(long);
  vi.stubEnv("TMPDIR", long);
  await expect(open({})).rejects.toMatchObject(failed(/socket.*is long.*TMPDIR/));
  expect(readdirSync(long)).toEqual([]);
});

it("keeps a process alive until it has ended with its policy, and what follows is done", () => {
  const owner = fileURLToPath(new URL("../../test-support/worker-owner.ts", import.meta.url));
  const env = { ...process.env, STATESET_PYTHON: fakePython };
  const done = spawnSync(process.execPath, ["--import", tsx, owner, storiesDir, "1", "close"], {
    encoding: "utf8",
    env,
  });
  expect(done).toMatchObject({ status: 0, stdout: expect.stringMatching(/^pids .*\nclosed\n$/) });
});

it("leaves no folder where the process ends in the midst of closing it", () => {
  const dir = temporaryFolder();
  const owner = fileURLToPath(new URL("../../test-support/worker-owner.ts", import.meta.url));
  const env = { ...process.env, STATESET_PYTHON: fakePython, TMPDIR: dir };
  const done = spawnSync(process.execPath, ["--import", tsx, owner, storiesDir, "1", "hurry"], {
    encoding: "utf8",
    env,
  });
  expect(done).toMatchObject({ status: 0, stdout: expect.stringMatching(/^pids .*\n$/) });
  expect(readdirSync(dir).filter((name) => name.startsWith("stateset-worker-"))).toEqual([]);
});

it("never shows the token: not in the arguments, the environment of the worker, or its log", async () => {
  const logDir = temporaryFolder();
  const policy = await open({ says: `$ARGV\n$ENV\nthe token is ${token}\n` }, { logDir });
  await policy.close();
  const log = readFileSync(join(logDir, "worker.log"), "utf8");
  expect(log).toContain("the token is [token]");
  expect(log).toContain("stateset_agents_worker --socket");
  expect(log).not.toContain(token);
  expect(log).not.toContain("STATESET_WORKER_TOKEN");
});

it("says which rank was lost, by what, and its last lines; then another one can be started", async () => {
  const policy = await open({ says: "the last words\n", dies: "zeroGradients" });
  const lost = { code: "WORKER_LOST", message: expect.stringMatching(/rank 0 ended by SIGKILL.*the last words/s) };
  const waiting = policy.forward({
    tokens: Int32Array.of(1, 2),
    nodeStart: Int32Array.of(0, 2),
    nodeParent: Int32Array.of(-1),
    wanted: Uint8Array.of(0, 1),
  });
  const calls = await Promise.allSettled([waiting, policy.zeroGradients()]);
  for (const call of calls) expect(call).toMatchObject({ status: "rejected", reason: lost });
  await expect(policy.zeroGradients()).rejects.toMatchObject(lost);
  expect(policy.stats().failed).toBe(true);
  await policy.revive();
  expect(policy.stats().failed).toBeUndefined();
  await expect(policy.zeroGradients()).rejects.toMatchObject(lost);
  // Whoever closes it meanwhile is left without a worker all the same.
  const [revived, closed] = [policy.revive(), policy.close()];
  await expect(revived).rejects.toMatchObject({ code: "POLICY_CLOSED" });
  await closed;
});

it("is lost, too, where it is killed as it starts, until there is one that is not", async () => {
  const torn = "torch.distributed.elastic.multiprocessing.api: failed (exitcode: -9) local_rank: 1 (pid: 7)\n";
  const said = `${torn}Root Cause (first observed failure):\n rank : 1 (local_rank: 1)\n exitcode : -9 (pid: 7)\n`;
  await expect(
    open({ says: `${said} traceback : Signal 9 (SIGKILL) received by PID 7\n`, exitCode: 1 }, { gpus: 2 }),
  ).rejects.toMatchObject({ code: "WORKER_LOST", message: expect.stringMatching(/ready: rank 1 ended by SIGKILL/) });
  const policy = await open({ dies: "zeroGradients" });
  await expect(policy.zeroGradients()).rejects.toMatchObject({ code: "WORKER_LOST" });
  for (const dies of ["start", "hello", "open"]) {
    vi.stubEnv("FAKE_PYTHON", JSON.stringify({ dies }));
    await expect(policy.revive()).rejects.toMatchObject({
      code: "WORKER_LOST",
      message: expect.stringMatching(/: rank 0 ended by SIGKILL/),
    });
    expect(policy.stats().failed).toBe(true);
  }
  vi.stubEnv("FAKE_PYTHON", "{}");
  await policy.revive();
  expect(policy.stats().failed).toBeUndefined();
  await policy.close();
});

it("keeps the process alive while it is closed, and not before", async () => {
  const policy = await open({});
  const processes = () => process.getActiveResourcesInfo().filter((name) => name === "ProcessWrap").length;
  const before = processes();
  const closing = policy.close();
  await vi.waitFor(() => expect(processes()).toBe(before + 1), { interval: 1 });
  await closing;
});

it("refuses what it does not know, or what is of another engine", async () => {
  const invalid = (message: RegExp) => ({ code: "INVALID_OPTION", message: expect.stringMatching(message) });
  await expect(openPolicy({ engine: "torch", torch: { gpu: 1 } as TorchOptions })).rejects.toMatchObject(
    invalid(/gpus/),
  );
  for (const torch of [{ tls: { ca: "ca.pem" } }, { url: "torch://there:1", python: "python3" }]) {
    const named = "tls" in torch ? /^torch\.tls .*no torch\.url/ : /^torch\.python .*torch\.url names/;
    await expect(loadTorchPolicy({ dir: storiesDir, torch })).rejects.toMatchObject(invalid(named));
  }
  await expect(openPolicy({ torch: { gpus: 1 } })).rejects.toMatchObject(invalid(/engine: "torch"/));
  await expect(openPolicy({ engine: "torch", threads: 2 })).rejects.toMatchObject(invalid(/threads/));
  await expect(openPolicy({ engine: "torch", stub: {} })).rejects.toMatchObject(invalid(/scripted/));
  await expect(loadTorchPolicy({ dir: temporaryFolder() })).rejects.toMatchObject({ code: "MODEL_NOT_FOUND" });
});
