import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { flagTests } from "../../../test/flags.ts";
import { temporaryFolder } from "../../../test/tiny-model.ts";
import { MultiTurnAgent } from "../../agent/multi-turn-agent.ts";

const { place, run, flag, complete } = flagTests("export");

async function adapter(): Promise<string> {
  const agent = new MultiTurnAgent({ model: place.model, lora: { rank: 2 }, seed: 1 });
  await agent.initialize();
  const dir = await temporaryFolder();
  await agent.save(dir);
  await agent.close();
  return dir;
}

describe("export", () => {
  flag("export --merge", async () => {
    const cwd = await temporaryFolder();
    const from = await adapter();
    expect((await run(`export ${from} kept`, { cwd })).stdout).toContain("The adapter is in");
    expect(existsSync(join(cwd, "kept/adapter_config.json"))).toBe(true);
    expect((await run(`export ${from} merged --merge`, { cwd })).status).toBe(0);
    expect(existsSync(join(cwd, "merged/adapter_config.json"))).toBe(false);
    // A fresh adapter adds nothing.
    const tensors = (dir: string) => readFileSync(join(dir, "model.safetensors")).subarray(-4096);
    expect(tensors(join(cwd, "merged"))).toEqual(tensors(place.model));
    expect((await run(`export ${place.model} whole --merge`, { cwd })).stderr).toContain("no adapter to merge");
  });
  flag("export --json", async () => {
    const cwd = await temporaryFolder();
    const [json] = (await run(`export ${place.model} out --json`, { cwd })).json;
    expect(json).toMatchObject({ folder: join(cwd, "out"), kind: "model" });
  });
  it("replaces what an export wrote, and nothing else", async () => {
    const cwd = await temporaryFolder();
    for (const _ of [1, 2]) expect((await run(`export ${place.model} out`, { cwd })).status).toBe(0);
    mkdirSync(join(cwd, "mine"));
    writeFileSync(join(cwd, "mine", "thesis.txt"), "do not lose");
    const refused = await run(`export ${place.model} mine`, { cwd });
    expect([refused.status, refused.stderr]).toEqual([
      8,
      expect.stringContaining("holds more than a model: thesis.txt"),
    ]);
    writeFileSync(join(cwd, "mine", "config.json"), '{"port": 80}');
    expect((await run(`export ${place.model} mine`, { cwd })).status).toBe(8);
    mkdirSync(join(cwd, "runs", "x", "checkpoints"), { recursive: true });
    writeFileSync(join(cwd, "runs", "x", "config.json"), '{"version": 2}');
    expect((await run(`export ${place.model} runs/x`, { cwd })).status).toBe(8);
    expect((await run(`export ${place.model} mine/thesis.txt`, { cwd })).status).toBe(8);
    expect(readFileSync(join(cwd, "mine", "thesis.txt"), "utf8")).toBe("do not lose");
  });
});

complete();
