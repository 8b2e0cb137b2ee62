import type { Command } from "commander";
import type { DashboardFlags } from "../dashboard/run-dashboard.ts";
import type { CliIo } from "../io.ts";
import { wholeNumber } from "../values.ts";

export function addDashboard(program: Command, io: CliIo): void {
  program
    .command("dashboard")
    .description("Look at runs in a browser: curves, conversations, and what was learnt from each of their tokens.")
    .argument("[folder...]", "folders of runs, or single runs (default: runs)")
    .option("--port <n>", "the port; where it is taken the next free one, 0 any", wholeNumber, 6006)
    .option("--host <address>", "where to listen, on this machine", "127.0.0.1")
    .option("--no-open", "print the link and open no browser")
    .option("--read-only", "change nothing: no notes, no stopping and resuming of runs")
    .option("--json", "print where it is as JSON")
    .addHelpText(
      "after",
      `
The link works once and lets one browser in. Ctrl-C ends it; a page that is open goes on by itself when it is started again.
From another machine: ssh -L 6006:127.0.0.1:6006 HOST, then open the link here.`,
    )
    .action(async (folders: string[], flags: DashboardFlags) => {
      const { runDashboard } = await import("../dashboard/run-dashboard.ts");
      await runDashboard(folders, flags, io);
    });
}
