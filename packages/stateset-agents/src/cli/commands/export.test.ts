import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { flagTests } from "../../../test/flags.ts";
import { temporaryFolder } from "../../../test/tiny-model.ts";
import type { AgentOptions } from "../../agent/agent-options.ts";
import { MultiTurnAgent } from "../../agent/multi-turn-agent.ts";
import { tool } from "../../tool/tool.ts";

const { place, run, flag, complete } = flagTests("export");

async function adapter(options: AgentOptions = {}): Promise<string> {
  const agent = new MultiTurnAgent({ model: place.model, lora: { rank: 2 }, seed: 1, ...options });
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
  flag("export --dtype", async () => {
    const cwd = await temporaryFolder();
    expect((await run(`export ${place.model} half --dtype bf16`, { cwd })).status).toBe(0);
    const size = (dir: string) => statSync(join(dir, "model.safetensors")).size;
    expect(size(join(cwd, "half"))).toBeLessThan(0.6 * size(place.model));
    expect(JSON.parse(readFileSync(join(cwd, "half/config.json"), "utf8"))).toMatchObject({ torch_dtype: "bfloat16" });
    expect((await run(`export ${await adapter()} out --dtype bf16`, { cwd })).stderr).toContain("always f32");
  });
  flag("export --gguf", async () => {
    const cwd = await temporaryFolder();
    const from = await adapter();
    const { status, stdout } = await run(`export ${from} --gguf whole.gguf`, { cwd });
    expect([status, stdout]).toEqual([0, expect.stringMatching(/The model, .* is in .*whole\.gguf \(f16, /)]);
    // It is a model as any other: this one is read, and written as a folder, with nothing left beside it.
    expect((await run("export whole.gguf folder", { cwd })).status).toBe(0);
    expect(readdirSync(cwd).sort()).toEqual(["folder", "whole.gguf"]);
    const again = await run(`export ${from} --gguf whole.gguf`, { cwd, tty: true });
    expect([again.status, again.stderr]).toEqual([0, expect.stringMatching(/\rwhole\.gguf █+ 100% of .* MB\n$/)]);
    expect((await run(`export ${place.model} --gguf new/folder/whole.gguf`, { cwd })).status).toBe(0);
    expect(readdirSync(join(cwd, "new/folder"))).toEqual(["whole.gguf"]);
    writeFileSync(join(cwd, "mine.gguf"), "do not lose");
    expect((await run(`export ${from} --gguf mine.gguf`, { cwd })).stderr).toContain("exists and is no GGUF file");
    expect((await run(`export ${from} --gguf model.bin`, { cwd })).stderr).toContain("does not end in .gguf");
    expect((await run(`export ${from} out --gguf a.gguf`, { cwd })).stderr).toContain("one of them");
    expect((await run(`export ${from}`, { cwd })).stderr).toContain("one of them");
    expect((await run(`export ${from} --gguf a.gguf --merge`, { cwd })).stderr).toContain("--merge is for a folder");
  });
  flag("export --type", async () => {
    const cwd = await temporaryFolder();
    const [json] = (await run(`export ${place.model} --gguf a.gguf --type q8_0 --json`, { cwd })).json;
    expect(json).toMatchObject({ file: join(cwd, "a.gguf"), type: "q8_0", halved: expect.arrayContaining([]) });
    await run(`export ${place.model} --gguf b.gguf --type f32`, { cwd });
    expect(statSync(join(cwd, "b.gguf")).size).toBeGreaterThan(1.5 * statSync(join(cwd, "a.gguf")).size);
    expect((await run(`export ${place.model} out --type f16`, { cwd })).stderr).toContain("--type is for --gguf");
    expect((await run(`export ${place.model} --gguf c.gguf --type q4_0`, { cwd })).stderr).toContain("f32, f16, q8_0");
  });
  it("needs no code of the agent's tools, and keeps what it was saved with", async () => {
    const cwd = await temporaryFolder();
    const shown = { type: "function", function: { name: "shown" } } as const;
    const parameters = { type: "object", properties: { city: { type: "string" } } };
    const from = await adapter({ tools: [tool({ name: "weather", parameters, execute: () => "sun" }), shown] });
    expect(await run(`export ${from} out`, { cwd })).toMatchObject({ status: 0, stderr: "" });
    expect(await run(`export ${from} --gguf whole.gguf`, { cwd })).toMatchObject({ status: 0, stderr: "" });
    const agentOf = (dir: string) => JSON.parse(readFileSync(join(dir, "agent.json"), "utf8"));
    expect(agentOf(join(cwd, "out"))).toEqual(agentOf(from));
    expect(agentOf(from)).toMatchObject({ runs: ["weather"], tools: [{ function: { parameters } }, shown] });
    // Where they would be run they are still asked for.
    expect((await run(`chat --checkpoint ${join(cwd, "out")}`, { cwd })).stderr).toContain("TOOL_MISSING");
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
