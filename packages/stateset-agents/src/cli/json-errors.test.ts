/** With --json whatever goes wrong is one JSON object, the last line of standard output; standard error stays empty. */
import { writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { cli, tableProject } from "../../test/cli.ts";
import { shownFlags } from "../../test/flags.ts";
import { temporaryFolder } from "../../test/tiny-model.ts";

const withJson = shownFlags().filter(({ options }) => options.includes("--json"));

describe("an error with --json", () => {
  it.each(withJson.map(({ path }) => path.join(" ")))("is JSON where %s does not know an option", async (command) => {
    const { status, stdout, stderr, json } = await cli([...command.split(" "), "--json", "--jsno"], { cwd: "/" });
    expect([status, stderr]).toEqual([2, ""]);
    expect(stdout.trimEnd().split("\n")).toHaveLength(1);
    expect(json).toEqual([
      {
        type: "error",
        code: "INVALID_OPTION",
        message: "Unknown option '--jsno'.",
        hint: 'Did you mean "--json"?',
        status: 2,
      },
    ]);
  });

  it("has the code, the message and the hint of what the library found", async () => {
    const { status, stderr, json } = await cli(["train", "--json"], { cwd: await temporaryFolder() });
    expect([status, stderr]).toEqual([3, ""]);
    expect(json).toMatchObject([
      {
        type: "error",
        code: "CONFIG_NOT_FOUND",
        message: expect.not.stringContaining("npx") as string,
        hint: expect.stringContaining("npx stateset-agents init") as string,
        status: 3,
      },
    ]);
  });

  it("is JSON for what nobody foresaw, with the stack where it is asked for", async () => {
    const cwd = await tableProject(await temporaryFolder(), {
      head: 'class Broken extends MultiTurnAgent { async initialize() { throw new Error("boom"); } }',
      rest: "agent: new Broken({ policy: createTablePolicy() }),",
    });
    const quiet = await cli(["train", "--json"], { cwd });
    expect([quiet.status, quiet.stderr]).toEqual([1, ""]);
    expect(quiet.json.at(-1)).toMatchObject({ type: "error", code: "UNEXPECTED", message: "boom", status: 1 });
    expect(quiet.json.at(-1)).not.toHaveProperty("stack");
    const loud = await cli(["train", "--json"], { cwd, env: { STATESET_DEBUG: "1" } });
    expect(loud.json.at(-1)!.stack).toContain("Broken.initialize");
  });

  it("is JSON for a command or a value that is not allowed", async () => {
    const last = async (...args: string[]) => (await cli(args, { cwd: "/" })).json.at(-1);
    expect(await last("trian", "--json")).toMatchObject({
      message: "Unknown command 'trian'.",
      hint: 'Did you mean "train"?',
    });
    expect(await last("train", "--json", "--steps", "x")).toMatchObject({
      type: "error",
      code: "INVALID_OPTION",
      status: 2,
    });
    expect(await last("runs", "show", "--json")).toMatchObject({ message: "Missing required argument 'run'." });
  });

  it("says what project keys have no effect as a notice", async () => {
    const cwd = await temporaryFolder();
    writeFileSync(`${cwd}/stateset.config.yaml`, "environment: { preset: sales }\nagent: { stub: {} }\nbf16: true\n");
    const { stderr, json } = await cli(["train", "--json", "--steps", "1", "--group-size", "2", "--name", "n"], {
      cwd,
    });
    expect(stderr).toBe("");
    expect(json[0]).toEqual({ type: "notice", message: "bf16 has no effect: The engine computes in float32." });
  });
});
