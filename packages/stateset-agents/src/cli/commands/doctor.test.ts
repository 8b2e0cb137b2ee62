import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
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
      "GPU",
    ]);
  });
  it("doctor says what Python is for", async () => {
    const { stdout } = await cli(["doctor", "--model", place.model], {
      cwd: place.dir,
      env: { STATESET_PYTHON: "/no/such/python" },
    });
    expect(stdout).toMatch(/Python +\/no\/such\/python not found \(not needed; only the comparisons with PyTorch in/);
  });
  flag("version --json", async () => {
    expect((await run("version --json")).json[0]).toMatchObject({ node: process.versions.node });
  });
  flag("--version", async () => {
    expect((await run("--version")).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

complete();
