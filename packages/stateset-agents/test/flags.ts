/** For the tests of a command's flags: every flag that its --help shows has one, or the last test of the file fails. */
import { beforeAll, expect, it } from "vitest";
import { processIo } from "../src/cli/io.ts";
import { allCommands, createProgram } from "../src/cli/program.ts";
import { type CliResult, type CliSettings, chatModel, cli, tableProject } from "./cli.ts";
import { temporaryFolder } from "./tiny-model.ts";

/** `commands` are top-level ones; "" is the program itself. */
export function flagTests(...commands: string[]) {
  const tested = new Set<string>();
  /** A project and two models, there once the tests run. */
  const place = { dir: "", model: "", other: "" };
  beforeAll(async () => {
    place.dir = await temporaryFolder();
    place.model = await chatModel(1);
    place.other = await chatModel(2);
    await tableProject(place.dir);
  });

  const run = (args: string, options: Partial<CliSettings> = {}): Promise<CliResult> =>
    cli(args.split(" "), { cwd: options.cwd ?? place.dir, ...options });

  /** Declares the test of one flag: `flag("train --steps", …)`. */
  const flag = (name: string, test: () => Promise<void>): void => {
    tested.add(name);
    it(name, test);
  };

  /** Declares those of --engine and --gpus; `attempt` runs the command so that it opens a model. */
  const engineFlags = (command: string, attempt: (flags: string) => Promise<CliResult>): void => {
    flag(`${command} --engine`, async () => {
      const away = await attempt("--engine torch://127.0.0.1:1");
      expect(away.stderr).toContain("STATESET_WORKER_TOKEN is not set");
      const unknown = await attempt("--engine troch");
      expect(unknown.stderr).toContain('Did you mean "torch"?');
      expect(unknown.status).toBe(2);
    });
    flag(`${command} --gpus`, async () => {
      expect((await attempt("--gpus 2")).stderr).toContain("Add --engine torch.");
      expect((await attempt("--gpus few")).status).toBe(2);
    });
  };

  /** To be called after all flags are declared. */
  const complete = (): void => {
    it("has a test for every flag of --help, which is answered", async () => {
      const flags: string[] = [];
      for (const { path, options } of shownFlags()) {
        if (!commands.includes(path[0] ?? "")) continue;
        flags.push(...options.map((option) => [...path, option].join(" ")));
        const help = await run([...path, "--help"].join(" "));
        expect(help.status).toBe(0);
        expect(help.stdout).toContain("Usage: stateset-agents");
      }
      expect([...tested].sort()).toEqual(flags.sort());
    });
  };
  return { place, run, flag, engineFlags, complete };
}

/** Every command with the flags its --help shows. */
export function shownFlags(): { path: string[]; options: string[] }[] {
  return allCommands(createProgram(processIo())).map((command) => {
    const path: string[] = [];
    for (let at: typeof command | null = command; at?.parent; at = at.parent) path.unshift(at.name());
    const options = command
      .createHelp()
      .visibleOptions(command)
      .map(({ long }) => long ?? "");
    return { path, options: options.filter((long) => long !== "--help") };
  });
}
