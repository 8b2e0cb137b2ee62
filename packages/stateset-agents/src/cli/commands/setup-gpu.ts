import type { Command } from "commander";
import type { CliIo } from "../io.ts";
import type { SetupFlags } from "../setup-gpu/run-setup-gpu.ts";

export function addSetupGpu(program: Command, io: CliIo): void {
  program
    .command("setup-gpu")
    .description("Install PyTorch for the torch engine into an environment of its own, and try it.")
    .option("--yes", "download without asking")
    .option("--dir <folder>", "where to (default: stateset-agents/gpu in $XDG_CACHE_HOME or ~/.cache)")
    .option("--python <program>", "the Python to make the environment with (default: what uv finds, else python3)")
    .option("--index-url <url>", "the index of Python packages (default: the installer's own)")
    .option("--no-test", "leave out the trial on the bundled model")
    .option("--force", "remove what is there and begin anew")
    .addHelpText(
      "after",
      `
It uses uv where that is installed, else python3 -m venv. Ctrl-C stops it; the same command goes on where it was. Run again later it is quick,
and brings the worker up to date with this version of stateset-agents.`,
    )
    .action(async (flags: SetupFlags) => {
      const { runSetupGpu } = await import("../setup-gpu/run-setup-gpu.ts");
      await runSetupGpu(flags, io);
    });
}
