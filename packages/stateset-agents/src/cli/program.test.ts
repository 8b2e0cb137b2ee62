import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { cliPage } from "../../../../scripts/cli-page.ts";
import { cli } from "../../test/cli.ts";
import { temporaryFolder } from "../../test/tiny-model.ts";
import { wrap } from "../telemetry/columns.ts";
import { checkNode } from "./doctor/checks.ts";

const cwd = "/";

describe("docs/reference/cli.md", () => {
  it("is what the command definitions say (npx tsx scripts/cli-page.ts writes it)", () => {
    const path = fileURLToPath(new URL("../../../../docs/reference/cli.md", import.meta.url));
    expect(readFileSync(path, "utf8")).toBe(cliPage());
  });
});

describe("completion", () => {
  it("completes commands, flags and their values in bash", async () => {
    const { stdout } = await cli(["completion", "bash"], { cwd });
    const complete = (line: string) => {
      const words = line.split(" ");
      const script = `${stdout}\nCOMP_WORDS=(${words.map((word) => `"${word}"`).join(" ")})\nCOMP_CWORD=${words.length - 1}\n_stateset_agents\necho "\${COMPREPLY[@]}"`;
      return spawnSync("bash", ["-c", script], { encoding: "utf8" }).stdout.trim().split(" ");
    };
    expect(complete("stateset-agents tr")).toEqual(["train"]);
    expect(complete("stateset-agents runs di")).toEqual(["diff"]);
    expect(complete("stateset-agents train --auto")).toEqual(["--auto-adjust"]);
    expect(complete("stateset-agents train --profile con")).toEqual(["conservative"]);
    expect(complete("stateset-agents completion f")).toEqual(["fish"]);
    expect(complete("stateset-agents evaluate --auto")).toEqual([""]);
  });

  it("writes scripts for zsh and fish", async () => {
    expect((await cli(["completion", "zsh"], { cwd })).stdout).toMatch(/bashcompinit[\s\S]*_stateset_agents/);
    const fish = (await cli(["completion", "fish"], { cwd })).stdout;
    expect(fish).toContain("-n '__fish_use_subcommand' -f -a train -d 'Train the agent of a project.'");
    expect(fish).toContain(
      "-n '__fish_seen_subcommand_from train' -l profile -x -a 'conservative balanced aggressive experimental'",
    );
    expect((await cli(["completion", "tcsh"], { cwd })).stderr).toContain("Allowed choices are bash, zsh, fish");
  });
});

describe("colours", () => {
  it("follow NO_COLOR, FORCE_COLOR and the terminal", async () => {
    const doctor = async (env: Record<string, string>, tty: boolean) =>
      (await cli(["doctor"], { cwd: await temporaryFolder(), env, tty })).stdout.includes("\u001b[");
    expect(await doctor({}, true)).toBe(true);
    expect(await doctor({ NO_COLOR: "1" }, true)).toBe(false);
    expect(await doctor({}, false)).toBe(false);
    expect(await doctor({ FORCE_COLOR: "1" }, false)).toBe(true);
  });
});

describe("the parts", () => {
  it("know which Node is too old, and how to get another", () => {
    expect(checkNode("20.19.0").status).toBe("ok");
    expect(checkNode("20.18.3")).toMatchObject({ status: "problem", fix: "nvm install 22 && nvm use 22" });
    expect(checkNode("24.1.0").status).toBe("ok");
  });

  it("wrap texts at words and cut words that are too long", () => {
    expect(wrap("a bc def ghijklmno", 5)).toEqual(["a bc", "def", "ghijk", "lmno"]);
    expect(wrap("one\n\ntwo", 10)).toEqual(["one", "", "two"]);
  });

  it("evaluate says what it needs when nobody can be asked", async () => {
    const { status, stderr } = await cli(["evaluate", "--stub"], { cwd });
    expect(status).toBe(2);
    expect(stderr).toContain("Give --message, --input or --scenarios");
  });
});
