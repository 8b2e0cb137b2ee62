import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { cli, type Json } from "../../../test/cli.ts";
import { flagTests } from "../../../test/flags.ts";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { exportGguf } from "../../policy/gguf/export-gguf.ts";

const { place, run, flag, complete } = flagTests("doctor", "version", "");

describe("doctor and version", () => {
  flag("doctor --model", async () => {
    const checked = await run(`doctor --model ${place.model}`);
    expect(checked.stdout).toMatch(/Model +.* parameters/);
    expect(checked.stdout).toMatch(
      /training all weights of .* needs about .*; an adapter \(lora: true\) [\d.]+ [GM]iB/,
    );
    const missing = await run("doctor --model /no/such/model");
    expect(missing.stdout).toMatch(/✗ Model/);
    expect(missing.stdout).toMatch(/→ give a folder with config\.json or a \.gguf file/);
  });
  it("finds the GGUF file of a folder, and says of another file that it is no model", async () => {
    const dir = temporaryFolder();
    await exportGguf({ dir: place.model, file: join(dir, "my model.gguf"), type: "F16", name: "tiny" });
    const checked = await cli(["doctor", "--model", dir], { cwd: dir });
    expect(checked.stdout).toMatch(/✓ Model +.* parameters/);
    writeFileSync(join(dir, "notes.txt"), "no model");
    const other = await cli(["doctor", "--model", "notes.txt"], { cwd: dir });
    expect(other.stdout).toMatch(/✗ Model +.*notes\.txt has no config\.json\.\n +→ Give a folder/);
  });
  it("finds a tokenizer that does not fit, and says once what to do", async () => {
    const dir = temporaryFolder();
    await exportGguf({ dir: place.model, file: join(dir, "model.gguf"), type: "F16", name: "tiny" });
    writeFileSync(join(dir, "tokenizer.json"), "{}");
    const { stdout, status } = await cli(["doctor", "--model", "model.gguf"], { cwd: dir });
    expect(stdout).toMatch(/✗ Model +The tokenizer in .* cannot be built: .*\.\n +→ Its tokenizer\.json is damaged/);
    expect(status).toBe(9);
  });
  it("names the instructions there are where others were asked for, and sends nobody to build an engine that is there", async () => {
    vi.stubEnv("STATESET_SIMD", "sse");
    const { stdout } = await cli(["doctor"], { cwd: temporaryFolder() }).finally(() => vi.unstubAllEnvs());
    expect(stdout).toMatch(/✗ Engine +STATESET_SIMD is "sse".*\n +→ Use one of: .*scalar\./);
  });
  flag("doctor --json", async () => {
    const [json] = (await run("doctor --json")).json;
    expect(json!.checks.map(({ name }: Json) => name)).toEqual([
      "Node",
      "Engine",
      "Threads",
      "Model",
      "Memory",
      "Disk",
      "Python",
      "Worker",
      "GPU",
    ]);
  });
  const asked = async (env: Record<string, string>) =>
    (await cli(["doctor", "--model", place.model], { cwd: place.dir, env })).stdout;
  it("doctor says what Python is for, and how to get it", async () => {
    const none = await asked({ STATESET_PYTHON: "/no/such/python" });
    expect(none).toMatch(/– Python +There is no Python at \/no\/such\/python.* the embedded engine needs none\./);
    expect(none).toMatch(/→ npx stateset-agents setup-gpu/);
  });
  it("doctor says what a Python has and lacks, and where the worker is", async () => {
    const dir = temporaryFolder();
    const pythonWith = (facts: object): string => {
      const file = join(dir, `python-${readdirSync(dir).length}`);
      writeFileSync(file, `#!/bin/sh\necho '${JSON.stringify(facts)}'\n`, { mode: 0o755 });
      return file;
    };
    const packages = { torch: "2.11.0", transformers: "5.17.1", peft: "0.21.0", bitsandbytes: null };
    const gpus = [{ name: "NVIDIA H200", totalBytes: 140 * 2 ** 30 }];
    const whole = await asked({
      STATESET_PYTHON: pythonWith({ version: "3.12.1", packages, gpus }),
      XDG_CACHE_HOME: dir,
    });
    expect(whole).toMatch(
      /✓ Python +3\.12\.1 \(.*python-0\) with torch 2\.11\.0, transformers 5\.17\.1, peft 0\.21\.0\n/,
    );
    expect(whole).toMatch(/✓ GPU +NVIDIA H200, 140\.0 GiB \(--engine torch --gpus 1\)/);
    expect(whole).toMatch(/✓ Worker +\d+\.\d+\.\d+ in .*python; no environment in .*stateset-agents\/gpu yet/);
    const old = { ...packages, torch: "2.4.0", peft: null };
    const half = await asked({ STATESET_PYTHON: pythonWith({ version: "3.9.0", packages: old, gpus: [] }) });
    expect(half).toMatch(
      /– Python .*; the torch engine wants Python 3\.10, torch 2\.11, peft 0\.21 or newer\n +→ npx stateset-agents setup-gpu/,
    );
    const bad = await asked({
      STATESET_PYTHON: pythonWith({ version: "3.12.0", packages, broken: "OSError: libcudart" }),
    });
    expect(bad).toMatch(/– Python .*PyTorch cannot be imported: OSError: libcudart/);
    writeFileSync(join(dir, "no-python"), "#!/bin/sh\nexit 3\n", { mode: 0o755 });
    expect(await asked({ STATESET_PYTHON: join(dir, "no-python") })).toMatch(/– Python .*no-python does not run/);
  });
  flag("version --json", async () => {
    expect((await run("version --json")).json[0]).toMatchObject({ node: process.versions.node });
  });
  flag("--version", async () => {
    expect((await run("--version")).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

complete();
