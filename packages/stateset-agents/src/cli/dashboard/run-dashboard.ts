/** The `dashboard` command: finds the folders, opens a port, says by which link to come in, and ends when it is told to. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { createDashboard, type Dashboard, defaultCacheDir } from "../../dashboard/create-dashboard.ts";
import { StatesetError } from "../../error.ts";
import { urlHost } from "../../network.ts";
import { isLoopbackName } from "../../server/guard/host.ts";
import { nearest } from "../../suggest.ts";
import { CliExit } from "../failure.ts";
import { type CliIo, colorsOf, isInteractive, print, printJson } from "../io.ts";
import { shown } from "../run/place.ts";
import { untilTold } from "../until-told.ts";
import { openBrowser } from "./open-browser.ts";
import { resumeCommand } from "./resume-command.ts";

export interface DashboardFlags {
  port: number;
  host: string;
  open: boolean;
  readOnly?: boolean;
  json?: boolean;
}

/** Ports that are tried, one after another. */
const mostPorts = 50;

export async function runDashboard(named: readonly string[], flags: DashboardFlags, io: CliIo): Promise<void> {
  requireLoopback(flags.host);
  // One that is named twice would show each of its runs twice.
  const folders = [...new Set((named.length > 0 ? named : ["runs"]).map((folder) => resolve(io.cwd, folder)))];
  // The usual one may come to be; one that was named is misspelt.
  if (named.length > 0) for (const folder of folders) requireFolder(folder, io);
  const dashboard = await createDashboard({
    ...{ folders, readOnly: flags.readOnly === true, cacheDir: defaultCacheDir(io.env) },
    ...{ resumeCommand: (dir) => resumeCommand(dir, io), log: { level: "warn", destination: "stderr" } },
  });
  // From here on a signal ends it well: whoever reads the link may send one at once.
  const told = untilTold(dashboard, io);
  try {
    const { url, port, link } = await listen(dashboard, flags);
    if (flags.json) printJson(io, { type: "dashboard", url, link, folders });
    else print(io, ...banner(folders, flags, port, link, io));
    if (flags.open && !flags.json && isInteractive(io)) openBrowser(link, io.env);
    const status = await told.end;
    // SIGTERM is how a server is ended; the others say what ended it.
    if (status !== 143) throw new CliExit(status);
  } finally {
    told.leave();
    await dashboard.close();
  }
}

function banner(folders: readonly string[], flags: DashboardFlags, port: number, link: string, io: CliIo): string[] {
  const { bold, dim, yellow } = colorsOf(io);
  const missing = folders.filter((folder) => !existsSync(folder));
  return [
    ...(flags.port !== 0 && port !== flags.port ? [yellow(`Port ${flags.port} is taken; this is ${port}.`)] : []),
    `${bold("Dashboard")} of ${folders.map((folder) => shown(folder, io)).join(", ")}${flags.readOnly ? ", read only" : ""}`,
    ...missing.map((folder) => dim(`${shown(folder, io)} is not there yet: its runs are shown once it is.`)),
    `  ${link}`,
    dim("The link works once, for one browser. Ctrl-C ends it."),
  ];
}

/** The port that was asked for, or the first free one after it. */
async function listen(dashboard: Dashboard, { host, port }: DashboardFlags): ReturnType<Dashboard["listen"]> {
  for (let at = port; ; at++) {
    try {
      return await dashboard.listen({ host, port: at });
    } catch (error) {
      if (!isTaken(error) || at - port >= mostPorts || at >= 65_535) throw error;
    }
  }
}

function isTaken(error: unknown): boolean {
  return error instanceof Error && (error.cause as NodeJS.ErrnoException | undefined)?.code === "EADDRINUSE";
}

/** Whoever reads along on a network could use the link first, and the cookie after. */
function requireLoopback(host: string): void {
  if (isLoopbackName(urlHost(host))) return;
  throw new StatesetError("INVALID_OPTION", `The dashboard listens on this machine alone, not on ${host}.`, {
    hint: "Reach it through `ssh -L 6006:127.0.0.1:6006 HOST`, or give others keys: `npx stateset-agents serve --keys` has it at /ui/.",
  });
}

function requireFolder(folder: string, io: CliIo): void {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return;
  const near = nearestFolder(folder);
  const what = existsSync(folder) ? "is no folder" : "does not exist";
  throw new StatesetError("INVALID_OPTION", `${shown(folder, io)} ${what}.`, {
    hint: near === undefined ? "Name a folder of runs." : `Did you mean "${shown(near, io)}"?`,
  });
}

/** Beside it one of a similar name; otherwise the first above it that is there. */
function nearestFolder(folder: string): string | undefined {
  const above = dirname(folder);
  if (!existsSync(above)) return nearestFolder(above) ?? undefined;
  const names = readdirSync(above, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const name = nearest(
    basename(folder),
    names.map((entry) => entry.name),
  );
  return name === undefined ? above : join(above, name);
}
