/** With programs that stand for uv and Python: nothing is downloaded here. */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { type CliSettings, cli } from "../../../test/cli.ts";
import { flagTests } from "../../../test/flags.ts";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { createTablePolicy } from "../../test-support/table-policy.ts";
import { isAtLeast, workerRequirements } from "../setup-gpu/requirements.ts";
import { compare, selfTest } from "../setup-gpu/self-test.ts";

const { flag, complete } = flagTests("setup-gpu");

interface Machine {
  python?: string;
  torch?: string;
  uv?: boolean;
  /** What `pip install` does. */
  install?: string;
}

/** A machine's programs, each of which writes down what it was asked. */
function machine({
  python = "3.12.1",
  torch = "2.11.0+cu130",
  uv = true,
  install = "echo Prepared 40 packages",
}: Machine = {}) {
  const root = temporaryFolder();
  const log = join(root, "calls");
  writeFileSync(log, "");
  const script = (path: string, body: string) => {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, `#!/bin/sh\necho "$(basename $0) $*" | head -n 1 >> ${log}\n${body}\n`);
    chmodSync(path, 0o755);
  };
  const packages = { torch, transformers: "5.17.0", peft: "0.21.0", bitsandbytes: null };
  const facts = JSON.stringify({ version: python, packages, gpus: [] });
  const venv = join(root, "template-python");
  script(
    venv,
    `case "$*" in
*"-m venv"*) mkdir -p "$3/bin"; cp ${venv} "$3/bin/python";;
*"pip install"*) ${install};;
*sysconfig*) mkdir -p ${root}/site; echo ${root}/site;;
*) echo '${facts}';;
esac`,
  );
  script(join(root, "bin", "python3"), `exec ${venv} "$@"`);
  const makes = `for last; do :; done; mkdir -p "$last/bin"; cp ${venv} "$last/bin/python"`;
  if (uv) script(join(root, "bin", "uv"), `case "$*" in venv*) ${makes};; pip*) ${install};; esac`);
  const env = { PATH: `${join(root, "bin")}:/usr/bin:/bin`, XDG_CACHE_HOME: join(root, "cache"), CI: "1" };
  const home = join(root, "cache", "stateset-agents", "gpu");
  return {
    root,
    home,
    run: (args: string, more: Partial<CliSettings> = {}) =>
      cli(`setup-gpu ${args}`.trim().split(" "), { cwd: root, env, ...more }),
    calls: () =>
      readFileSync(log, "utf8")
        .split("\n")
        .filter((line) => / (venv|pip|-m) /.test(line)),
    finished: () => JSON.parse(readFileSync(join(home, "setup.json"), "utf8")) as Record<string, unknown>,
  };
}

it("says what it would download, and does not where nobody can be asked", async () => {
  const { run, calls, home } = machine();
  const { status, stdout, stderr } = await run("--no-test");
  expect(status).toBe(2);
  expect(stdout).toMatch(/packages +torch>=2\.11, transformers>=5\.\d+, peft>=0\.\d+/);
  expect(stdout).toMatch(/about \S+ [GM]iB to download/);
  expect(stderr).toContain("Give --yes.");
  expect(calls()).toEqual([]);
  expect(existsSync(join(home, ".venv"))).toBe(false);
});

flag("setup-gpu --yes", async () => {
  const { run, calls, home, root } = machine();
  const { status, stdout } = await run("--yes --no-test");
  expect(status).toBe(0);
  expect(stdout).toContain("Prepared 40 packages");
  expect(stdout).toContain("All is there: Python 3.12.1, torch 2.11.0+cu130, transformers 5.17.0, peft 0.21.0, worker");
  expect(stdout).toContain("PyTorch sees no GPU here");
  const python = join(home, ".venv/bin/python");
  const [venv, install] = calls();
  expect(venv).toBe(`uv venv --quiet --python >=3.10 ${join(home, ".venv")}`);
  expect(install).toContain(`uv pip install --python ${python} torch>=`);
  expect(existsSync(join(root, "site/stateset_agents_worker/__main__.py"))).toBe(true);

  const again = await run("--no-test");
  expect(again.status).toBe(0);
  expect(again.stdout).toContain("All is there");
  expect(calls()).toHaveLength(2);
});

it("uses what Python itself has where there is no uv", async () => {
  const { run, calls, home } = machine({ uv: false });
  expect((await run("--yes --no-test")).status).toBe(0);
  expect(calls().filter((line) => line.startsWith("python3"))).toEqual([`python3 -m venv ${join(home, ".venv")}`]);
  expect(calls().at(-1)).toMatch(/^python -m pip install --progress-bar off torch>=/);
  const old = machine({ uv: false, python: "3.9.2" });
  const refused = await old.run("--yes --no-test");
  expect(refused.stderr).toContain("python3 is Python 3.9.2; 3.10 is needed");
  expect(refused.status).toBe(6);
});

it("goes on where it was stopped", async () => {
  const { run, calls, finished } = machine({ install: "echo Downloading torch; exec sleep 60" });
  const stopped = await run("--yes --no-test", { interruptAt: /Downloading torch/ });
  expect(stopped.status).toBe(130);
  expect(stopped.stderr).toContain("go on with: npx stateset-agents setup-gpu");
  expect(finished()).toEqual({ venv: true });
  expect((await run("--yes --no-test", { interruptAt: /Downloading torch/ })).status).toBe(130);
  expect(calls().map((line) => line.split(" ")[1])).toEqual(["venv", "pip", "pip"]);
});

it("says what failed, and what its last lines were", async () => {
  const { run, finished } = machine({ install: "echo no space left on device; exit 28" });
  const { status, stderr } = await run("--yes --no-test");
  expect(status).toBe(6);
  expect(stderr).toMatch(/uv pip install .* failed: exit code 28\.\n +no space left on device/);
  expect(finished()).toEqual({ venv: true });
});

it("refuses an environment that has not what it needs", async () => {
  const { run } = machine({ torch: "2.4.1" });
  expect((await run("--yes --no-test")).stderr).toMatch(/torch is 2\.4\.1, 2\.11 is needed[\s\S]*setup-gpu --force/);
});

flag("setup-gpu --dir", async () => {
  const { run, root } = machine();
  const { stdout } = await run("--yes --no-test --dir envs/gpu");
  expect(stdout).toContain(`export STATESET_PYTHON=${join(root, "envs/gpu/.venv/bin/python")}`);
});
flag("setup-gpu --python", async () => {
  const { run, calls } = machine();
  await run("--yes --no-test --python python3.11");
  expect(calls()[0]).toContain("--python python3.11");
  const { run: plain } = machine({ uv: false });
  expect((await plain("--yes --no-test --python python9")).stderr).toContain("python9 does not run");
});
flag("setup-gpu --index-url", async () => {
  const { run, calls } = machine();
  await run("--yes --no-test --index-url http://packages.test/simple");
  expect(calls()[1]).toContain("--index-url http://packages.test/simple torch>=");
  const refused = machine({ install: "echo no $5 $6 >&2; exit 2" });
  const { stdout, stderr } = await refused.run("--yes --no-test --index-url https://me:pass-word@packages.test/simple");
  expect(refused.calls()[1]).toContain("https://me:pass-word@packages.test/simple");
  expect(stderr).toContain("--index-url https://[hidden]@packages.test/simple torch>=");
  expect(stdout).toContain("no --index-url https://[hidden]@packages.test/simple");
  expect(stdout + stderr).not.toContain("pass-word");
});
flag("setup-gpu --force", async () => {
  const { run, calls } = machine();
  await run("--yes --no-test");
  expect((await run("--yes --no-test --force")).status).toBe(0);
  expect(calls()).toHaveLength(4);
});
flag("setup-gpu --no-test", async () => {
  const { run } = machine();
  await run("--yes --no-test");
  // What stands for Python here cannot be a worker.
  const tried = await run("");
  expect(tried.stdout).toContain("Trying it on the processor");
  expect(tried.status).toBe(6);
});

it("compares versions by their numbers", () => {
  expect(["2.11", "2.11.0+cu130", "2.13.1", "3.0"].every((version) => isAtLeast(version, "2.11"))).toBe(true);
  expect(["2.9.1", "2.10.9", "1.99"].some((version) => isAtLeast(version, "2.11"))).toBe(false);
  expect(workerRequirements().packages.map(({ name }) => name)).toEqual(["torch", "transformers", "peft"]);
});

it("finds two engines alike, and not alike", async () => {
  const { difference, before, after } = await compare(createTablePolicy(), createTablePolicy());
  expect(difference).toBe(0);
  expect(after).toBeGreaterThan(before);
  await expect(compare(createTablePolicy(), createTablePolicy({ seed: 2 }))).rejects.toMatchObject({
    code: "ENGINE_FAILED",
  });
  const still = createTablePolicy();
  still.step = async () => ({ gradNorm: 0, applied: false, version: still.version, drained: false });
  await expect(compare(still, createTablePolicy())).rejects.toThrow(/a step towards a reply left it/);
});

const python = process.env.STATESET_PYTHON;
it.skipIf(!python)(
  "finds the worker and the embedded engine alike on the bundled model",
  async () => {
    const { difference, sampled } = await selfTest({ python: python!, device: "cpu" });
    expect(difference).toBeLessThan(1e-4);
    expect(sampled).toBeGreaterThan(0);
  },
  120_000,
);

complete();
