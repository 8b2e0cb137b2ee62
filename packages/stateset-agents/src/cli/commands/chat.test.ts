import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { flagTests } from "../../../test/flags.ts";
import { learnFolder, toolProject } from "../../../test/learn-data.ts";
import { temporaryFolder } from "../../../test/tiny-model.ts";

const { place, run, flag, engineFlags, complete } = flagTests("chat");

describe("chat", () => {
  flag("chat --checkpoint", async () => {
    expect((await run(`chat --checkpoint ${place.model} --max-tokens 4`, { input: "hello\n" })).stdout).toMatch(
      /^agent ▸ .+/,
    );
    const two = await run(`chat --checkpoint ${place.model} ${place.other} --max-tokens 4`, { input: "hello\n" });
    expect(two.stdout).toMatch(/a {2}.+ │ b {2}/);
    expect((await run(`chat --checkpoint ${place.model} ${place.model} ${place.model}`)).stderr).toContain(
      "one or two agents, not 3",
    );
  });
  flag("chat --config", async () => {
    const empty = await temporaryFolder();
    const result = await run(`chat --config ${join(place.dir, "stateset.config.ts")}`, {
      cwd: empty,
      input: "help order\n",
    });
    expect(result.status).toBe(0);
    expect(result.stdout).toContain("agent ▸");
  });
  flag("chat --temperature", async () => {
    const reply = async (t: string) =>
      (await run(`chat --checkpoint ${place.model} --max-tokens 12 --seed 1 --temperature ${t}`, { input: "hello\n" }))
        .stdout;
    expect(await reply("0.01")).not.toBe(await reply("3"));
  });
  flag("chat --max-tokens", async () => {
    const length = async (n: number) =>
      (await run(`chat --checkpoint ${place.model} --seed 1 --max-tokens ${n}`, { input: "hello\n" })).stdout.length;
    expect(await length(2)).toBeLessThan(await length(30));
  });
  flag("chat --constrain", async () => {
    const cwd = await toolProject();
    const talk = async (args: string) => (await run(`chat ${args}--seed 3`, { cwd, input: "hello\n" })).stdout;
    const held = await talk("--constrain ");
    expect(held).toMatch(/^agent ▸ .+/);
    expect(held).not.toContain("failed");
    expect(held).toBe(await talk(""));
    const none = await run(`chat --checkpoint ${place.model} --constrain`, { input: "hello\n" });
    expect(none).toMatchObject({ status: 2, stderr: expect.stringContaining("this agent has none") as string });
    // What cannot be held is refused where the flag, or the configuration alone, asks for it.
    for (const [agent, args] of [
      ["", " --constrain"],
      ["constrain: true,", ""],
      ["constrain: true,", ` --checkpoint ${place.model}`],
    ] as const) {
      const odd = await toolProject("{ not: {} }", agent);
      expect((await run(`chat --seed 3${args}`, { cwd: odd, input: "hello\n" })).stderr).toContain('cannot hold "not"');
    }
  });
  flag("chat --seed", async () => {
    const talk = async (seed: number) =>
      (await run(`chat --checkpoint ${place.model} --max-tokens 8 --seed ${seed}`, { input: "hello\nhello\n" })).stdout;
    expect(await talk(1)).toBe(await talk(1));
    expect(await talk(1)).not.toBe(await talk(2));
  });
  flag("chat --model", async () => {
    const reply = async (options: string, cwd: string) =>
      (await run(`chat ${options} --max-tokens 8 --seed 1`, { cwd, input: "hello\n" })).stdout;
    const [project, elsewhere] = [await learnFolder(place.model), await temporaryFolder()];
    expect(await reply(`--model ${place.other}`, elsewhere)).toBe(
      await reply(`--checkpoint ${place.other}`, elsewhere),
    );
    expect(await reply(`--model ${place.other}`, project)).not.toBe(await reply(`--model ${place.model}`, project));
    expect((await run(`chat --model ${place.other} --checkpoint ${place.model}`)).stderr).toContain(
      "--model and --checkpoint",
    );
  });
  engineFlags("chat", (flags) => run(`chat --checkpoint ${place.model} ${flags}`, { input: "hi\n" }));
  flag("chat --threads", async () => {
    expect((await run(`chat --checkpoint ${place.model} --threads 0`, { input: "hi\n" })).stderr).toContain(
      "agent.threads",
    );
  });
  flag("chat --stub", async () => {
    const { stdout } = await run("chat --stub", { input: "hi\n/undo\n/undo\n/reset\n/exit\nunseen\n" });
    expect(stdout).toContain("scripted reply from a stub");
    const said = ["The last exchange is taken back.", "There is nothing to take back.", "A new conversation."];
    expect(stdout).toMatch(new RegExp(said.join("[^]*")));
    expect(stdout.match(/agent ▸/g)).toHaveLength(1);
  });
  flag("chat --json", async () => {
    const { json } = await run("chat --stub --json", { input: "one\ntwo\n" });
    expect(json.map(({ message }) => message)).toEqual(["one", "two"]);
  });
});

describe("a chat that something goes wrong in", () => {
  const long = "word ".repeat(4000);

  it("says that a message does not fit, keeps the conversation and goes on", async () => {
    const { status, stdout, stderr } = await run(`chat --checkpoint ${place.model} --max-tokens 4 --seed 1`, {
      input: `hello\n${long}\nhello\n`,
    });
    expect(stderr).toContain("CONTEXT_OVERFLOW");
    // chat sets a context strategy itself, so to advise one would be no help.
    expect(stderr).toMatch(/The last message alone is too long for .*Shorten it\./s);
    expect(stderr).not.toContain("contextWindow");
    expect(status).toBe(1);
    const plain = await run(`chat --checkpoint ${place.model} --max-tokens 4 --seed 1`, { input: "hello\nhello\n" });
    const replies = (text: string) => text.split("\n").filter((line) => /^agent ▸ .*[^)]$/.test(line));
    expect(replies(stdout).filter((line) => !line.endsWith("(failed)"))).toEqual(replies(plain.stdout));
  });

  it("says so in JSON, and in two columns", async () => {
    const { json } = await run(`chat --checkpoint ${place.model} --max-tokens 4 --json`, { input: `${long}\nhi\n` });
    expect(json).toMatchObject([{ error: { code: "CONTEXT_OVERFLOW" } }, { replies: [{}] }]);
    const two = await run(`chat --checkpoint ${place.model} ${place.other} --max-tokens 4`, { input: `${long}\nhi\n` });
    expect(two.stderr).toContain("CONTEXT_OVERFLOW");
    expect(two.stdout.match(/a {2}.+ │ b {2}/g)).toHaveLength(2);
  });

  it("goes on without its oldest messages when it outgrows the model", async () => {
    const { status, json, stderr } = await run(`chat --checkpoint ${place.model} --max-tokens 8 --json`, {
      input: "tell me more about the order that I made\n".repeat(60),
    });
    expect(stderr).toBe("");
    expect(status).toBe(0);
    expect(json).toHaveLength(60);
  });

  it("knows its commands, and refuses others", async () => {
    const { stdout, stderr } = await run("chat --stub", { input: "/help\n/rest\n/frobnicate it\n//etc is full\n" });
    expect(stdout).toContain("/undo");
    expect(stderr).toContain('There is no /rest. Did you mean "/reset"?');
    expect(stderr).toContain("There is no /frobnicate. Valid: /help, /reset, /undo, /exit.");
    expect(stdout.match(/agent ▸/g)).toHaveLength(1);
  });
});

describe("the agent of a project", () => {
  it.each(["evaluate --message hello", "chat"])("takes the sampling flags of %s", async (command) => {
    const cwd = await temporaryFolder();
    const project = { agent: { model: place.model, sampling: { max_tokens: 12 } }, environment: { preset: "sales" } };
    writeFileSync(join(cwd, "stateset.config.json"), JSON.stringify(project));
    const reply = async (args: string) => (await run(`${command} ${args}`, { cwd, input: "hello\n" })).stdout;
    const plain = await reply("--seed 1");
    expect(plain).toBe(await reply("--seed 1 --max-tokens 12"));
    expect(plain).not.toBe(await reply("--seed 2"));
    expect(plain).not.toBe(await reply("--seed 1 --temperature 5"));
    expect((await reply("--seed 1 --max-tokens 2")).length).toBeLessThan(plain.length);
    // An Agent object may do anything with its options, so they are not changed behind its back.
    const refused = await run(`${command} --temperature 2 --max-tokens 3`, { input: "hello\n" });
    expect(refused.stderr).toContain("--temperature and --max-tokens cannot change the agent");
  });
});

complete();
