import { describe, expect, it } from "vitest";
import { cli, type Json } from "../../../test/cli.ts";
import { flagTests } from "../../../test/flags.ts";

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
