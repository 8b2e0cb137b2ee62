import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type Json, tableProject } from "../../../test/cli.ts";
import { flagTests } from "../../../test/flags.ts";
import { learnFolder, toolProject } from "../../../test/learn-data.ts";
import { temporaryFolder } from "../../../test/tiny-model.ts";

const { place, run, flag, engineFlags, complete } = flagTests("evaluate");

describe("evaluate", () => {
  flag("evaluate --checkpoint", async () => {
    const { stdout, status } = await run(`evaluate --checkpoint ${place.model} --message hello --max-tokens 5`);
    expect(status).toBe(0);
    expect(stdout.trim().length).toBeGreaterThan(0);
  });
  it("evaluate --checkpoint last takes the newest finished run", async () => {
    const cwd = await temporaryFolder();
    const reply = (checkpoint: string) =>
      run(`evaluate --checkpoint ${checkpoint} --message hello --max-tokens 12 --temperature 2`, { cwd });
    expect((await reply("last")).stderr).toContain("There is no trained agent");
    for (const [name, time, final] of [
      ["b-old", 1, place.model],
      ["a-new", 2, place.other],
      ["c-unfinished", 3, undefined],
    ] as const) {
      const folder = join(cwd, "runs", name);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, "config.json"), JSON.stringify({ id: name }));
      writeFileSync(join(folder, "status.json"), JSON.stringify({ state: "finished", startedAt: time }));
      if (final !== undefined) cpSync(final, join(folder, "final"), { recursive: true });
    }
    expect((await reply("last")).stdout).toBe((await reply(place.other)).stdout);
    expect((await reply("last")).stdout).not.toBe((await reply(place.model)).stdout);
  });
  flag("evaluate --compare", async () => {
    const args = `evaluate --checkpoint ${place.model} --compare ${place.other} --samples 2 --max-tokens 6`;
    const table = await run(args);
    expect(table.stdout).toMatch(/b − a +[+-]\d.* over 2 scenarios/);
    expect(table.stdout).toContain("2 scenarios cannot tell: it takes at least 6.");
    const [json] = (await run(`${args} --json`)).json;
    expect(json).toMatchObject({
      comparison: { reward: { pValue: expect.any(Number) as number, verdict: "unknown" } },
    });
  });
  flag("evaluate --reward", async () => {
    writeFileSync(join(place.dir, "constant.js"), "export default () => 0.25;");
    const args = `evaluate --checkpoint ${place.model} --scenarios --samples 1 --max-tokens 4`;
    expect((await run(`${args} --reward constant.js --json`)).json[0]).toMatchObject({ reward: { mean: 0.25 } });
    expect((await run(`${args} --reward nowhere`)).stderr).toContain("There is no reward at");
  });
  flag("evaluate --message", async () => {
    expect((await run("evaluate --stub --message hi")).stdout).toContain("scripted reply from a stub");
  });
  flag("evaluate --input", async () => {
    writeFileSync(
      join(place.dir, "in.jsonl"),
      '"first"\n{"message": "second"}\n{"messages": [{"role": "user", "content": "third"}]}\n',
    );
    const { json } = await run("evaluate --stub --json --input in.jsonl");
    expect(json.map(({ messages }) => messages[0].content)).toEqual(["first", "second", "third"]);
    expect(json[0]).toHaveProperty("stub", true);
    writeFileSync(join(place.dir, "list.json"), '["only"]');
    expect((await run("evaluate --stub --input list.json")).stdout).toContain("> only");
    writeFileSync(join(place.dir, "bad.jsonl"), '"fine"\n{"role": 1}\n');
    expect((await run("evaluate --stub --input bad.jsonl")).stderr).toContain("bad.jsonl, line 2 is no message");
  });
  flag("evaluate --scenarios", async () => {
    writeFileSync(join(place.dir, "scenes.jsonl"), '{"id": "one", "userResponses": ["hello"]}\n');
    expect((await run("evaluate --stub --scenarios scenes.jsonl --samples 1")).stdout).toMatch(/one +0\.000/);
    expect((await run("evaluate --stub --scenarios --samples 1")).stdout).toMatch(/held-1/);
  });
  flag("evaluate --config", async () => {
    const elsewhere = await tableProject(join(place.dir, "elsewhere-2"));
    const empty = await temporaryFolder();
    const result = await run(
      `evaluate --stub --scenarios --samples 1 --config ${join(elsewhere, "stateset.config.ts")}`,
      { cwd: empty },
    );
    expect(result.stdout).toContain("held-1");
  });
  flag("evaluate --samples", async () => {
    const [json] = (await run("evaluate --stub --scenarios --samples 3 --json")).json;
    expect(json).toMatchObject({ scenarios: [{ samples: 3 }, { samples: 3 }], stub: true });
  });
  flag("evaluate --skip-bad", async () => {
    writeFileSync(join(place.dir, "mixed.jsonl"), '{"id": 1}\n{"id": "good", "userResponses": ["hello"]}\n');
    const args = "evaluate --stub --json --samples 1 --scenarios mixed.jsonl";
    expect((await run(args)).json.at(-1)).toMatchObject({
      type: "error",
      message: expect.stringContaining("line 1") as string,
    });
    expect((await run(`${args} --skip-bad`)).json).toMatchObject([
      { type: "skipped", skipped: 1 },
      { scenarios: [{ id: "good" }] },
    ]);
  });
  flag("evaluate --episodes", async () => {
    const samples = async (n: number) =>
      (await run(`evaluate --stub --scenarios --episodes ${n} --json`)).json[0]!.scenarios.map(
        (one: Json) => one.samples,
      );
    // At least as many as asked for, and of every scenario the same.
    expect([await samples(6), await samples(5), await samples(1)]).toEqual([
      [3, 3],
      [3, 3],
      [1, 1],
    ]);
    expect((await run("evaluate --stub --scenarios --episodes 2 --samples 2")).stderr).toContain("both say how many");
  });
  it("evaluate knows the Python system's names, and the checkpoint without its flag", async () => {
    writeFileSync(
      join(place.dir, "two.jsonl"),
      '{"id": "x", "userResponses": ["hello"]}\n{"id": "y", "userResponses": ["bye"]}\n',
    );
    const named = "--num-episodes 6 --scenarios-file two.jsonl --output-file named.json --max-tokens 4";
    const { status } = await run(`evaluate ${place.model} ${named}`);
    expect(status).toBe(0);
    expect(JSON.parse(readFileSync(join(place.dir, "named.json"), "utf8"))).toMatchObject({
      reward: { count: 2 },
      scenarios: [{ samples: 3 }, { samples: 3 }],
    });
    expect((await run(`evaluate ${place.model} --checkpoint ${place.other}`)).stderr).toContain(
      "both name the checkpoint",
    );
  });
  flag("evaluate --seed", async () => {
    const reply = async (seed: number) =>
      (await run(`evaluate --checkpoint ${place.model} --message hello --max-tokens 12 --seed ${seed}`)).stdout;
    expect(await reply(1)).toBe(await reply(1));
    expect(await reply(1)).not.toBe(await reply(2));
  });
  flag("evaluate --temperature", async () => {
    const reply = async (t: string) =>
      (await run(`evaluate --checkpoint ${place.model} --message hello --max-tokens 12 --temperature ${t}`)).stdout;
    expect(await reply("0.01")).not.toBe(await reply("3"));
    expect((await run("evaluate --temperature hot")).status).toBe(2);
    // Greedy: once is enough, unless told otherwise.
    const samples = async (more: string) =>
      (await run(`evaluate --stub --scenarios --json --temperature 0${more}`)).json[0]!.scenarios[0].samples;
    expect([await samples(""), await samples(" --samples 2")]).toEqual([1, 2]);
  });
  flag("evaluate --constrain", async () => {
    const cwd = await toolProject();
    const reply = async (args: string) => (await run(`evaluate ${args}--message hello --seed 3`, { cwd })).stdout;
    // Words that call nothing are the same with it.
    const held = await reply("--constrain ");
    expect(held.trim().length).toBeGreaterThan(0);
    expect(held).toBe(await reply(""));
    const none = await run(`evaluate --checkpoint ${place.model} --message hello --constrain`);
    expect(none).toMatchObject({ status: 2, stderr: expect.stringContaining("this agent has none") as string });
    const refused = await run("evaluate --message hello --constrain", {
      cwd: await toolProject("{ not: {} }"),
    });
    expect(refused.stderr).toContain('cannot hold "not"');
    // Tools may be the environment's: then conversations are held, whatever the agent has.
    const shop = { cwd: await toolProject("{ not: {} }") };
    expect((await run("evaluate --scenarios --samples 1 --json", shop)).status).toBe(0);
    expect((await run("evaluate --scenarios --samples 1 --constrain", shop)).stderr).toContain('cannot hold "not"');
  });
  flag("evaluate --max-tokens", async () => {
    const length = async (n: number) =>
      (await run(`evaluate --checkpoint ${place.model} --message hello --max-tokens ${n}`)).stdout.length;
    expect(await length(2)).toBeLessThan(await length(30));
  });
  flag("evaluate --model", async () => {
    const cwd = await learnFolder(place.model);
    const reply = async (options: string) =>
      (await run(`evaluate ${options} --message hello --max-tokens 12`, { cwd })).stdout;
    expect(await reply(`--model ${place.model}`)).not.toBe(await reply(`--model ${place.other}`));
  });
  engineFlags("evaluate", (flags) => run(`evaluate --checkpoint ${place.model} --message hello ${flags}`));
  flag("evaluate --threads", async () => {
    const reply = async (n: number) =>
      (await run(`evaluate --checkpoint ${place.model} --message hello --max-tokens 12 --threads ${n}`)).stdout;
    expect(await reply(1)).toBe(await reply(2));
    expect((await run(`evaluate --checkpoint ${place.model} --message hello --threads 0`)).stderr).toContain(
      "agent.threads",
    );
  });
  flag("evaluate --output", async () => {
    await run("evaluate --stub --scenarios --samples 1 --output result.json");
    expect(JSON.parse(readFileSync(join(place.dir, "result.json"), "utf8"))).toMatchObject({ reward: { count: 2 } });
  });
  flag("evaluate --stub", async () => {
    const { stdout } = await run("evaluate --stub --scenarios --samples 1");
    expect(stdout).toContain("A stub made these replies up");
  });
  flag("evaluate --json", async () => {
    expect((await run("evaluate --stub --message hi --json")).json[0]).toMatchObject({
      reply: expect.any(String) as string,
      stub: true,
    });
  });
});

complete();
