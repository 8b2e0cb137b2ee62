import type { Command } from "commander";
import { runChecks } from "../doctor/checks.ts";
import { CliExit } from "../failure.ts";
import { type CliIo, colorsOf, print, printJson } from "../io.ts";

const marks = { ok: "✓", note: "–", problem: "✗" } as const;

export function addDoctor(program: Command, io: CliIo): void {
  program
    .command("doctor")
    .description(
      "Check that this machine can train: Node, engine, memory, disk; and for the torch engine Python, its packages and GPUs.",
    )
    .option(
      "--model <model>",
      "check against the needs of this model, a folder or GGUF file (default: the starter model)",
    )
    .option("--json", "print JSON")
    .action(async (options: { model?: string; json?: boolean }) => {
      const checks = await runChecks({ cwd: io.cwd, env: io.env, model: options.model });
      const problems = checks.filter(({ status }) => status === "problem");
      if (options.json) printJson(io, { healthy: problems.length === 0, checks });
      else {
        const colors = colorsOf(io);
        const paint = { ok: colors.green, note: colors.dim, problem: colors.red };
        for (const { name, status, detail, fix } of checks) {
          print(io, `${paint[status](marks[status])} ${name.padEnd(9)} ${detail}`);
          if (fix) print(io, `    ${colors.cyan("→")} ${fix}`);
        }
        print(
          io,
          "",
          problems.length === 0
            ? colors.green("Ready to train.")
            : colors.red(`${problems.length} problem${problems.length > 1 ? "s" : ""} found.`),
        );
      }
      if (problems.length > 0) throw new CliExit(9);
    });
}
