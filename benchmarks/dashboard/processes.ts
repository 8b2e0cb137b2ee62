/** The servers that are measured, each a process of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

export const command = fileURLToPath(
  new URL("../../packages/stateset-agents/bin/stateset-agents.mjs", import.meta.url),
);

export interface Server {
  url: string;
  pid: number;
  end(): Promise<void>;
}

export interface OurServer extends Server {
  /** Lets one browser in, once. */
  link: string;
}

/** `stateset-agents dashboard`, as it is installed. `cache`: where its indexes are. */
export async function startDashboard(runs: string, cache: string): Promise<OurServer> {
  const child = spawn(process.execPath, [command, "dashboard", runs, "--port", "0", "--no-open", "--json"], {
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, XDG_CACHE_HOME: cache },
  });
  const { url, link } = await firstLine<{ url: string; link: string }>(child);
  return { url, link, pid: child.pid!, end: () => ending(child, "SIGTERM") };
}

function firstLine<T>(child: ChildProcess): Promise<T> {
  return new Promise((settle, reject) => {
    let text = "";
    child.stdout!.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      const end = text.indexOf("\n");
      if (end >= 0) settle(JSON.parse(text.slice(0, end)) as T);
    });
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`The dashboard ended with ${code}.`)));
  });
}

/** TensorBoard as it starts by itself: with its data server where the wheel has one. */
export async function startTensorBoard(python: string, logs: string): Promise<Server> {
  const port = await freePort();
  const args = ["-m", "tensorboard.main", "--logdir", logs, "--host", "127.0.0.1", "--port", String(port)];
  const child = spawn(python, args, { stdio: ["ignore", "ignore", "pipe"] });
  let complaints = "";
  child.stderr!.setEncoding("utf8").on("data", (text: string) => {
    complaints = (complaints + text).slice(-2000);
  });
  const url = `http://127.0.0.1:${port}`;
  for (let tries = 0; tries < 1200 && child.exitCode === null; tries++) {
    if (await answers(`${url}/data/environment`)) return { url, pid: child.pid!, end: () => ending(child, "SIGTERM") };
    await sleep(50);
  }
  await ending(child, "SIGKILL");
  throw new Error(`TensorBoard did not start: ${complaints.trim().split("\n").at(-1)}`);
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );
}

export async function ending(child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise<void>((settle) => child.once("exit", () => settle()));
  child.kill(signal);
  await gone;
}

/** MiB of memory: what the process has for itself now; and with code and whatever it shares with others, at its most. Zero where the system does not tell. */
export function memoryOf(pid: number): { own: number; most: number } {
  let text = "";
  try {
    text = readFileSync(`/proc/${pid}/status`, "utf8");
  } catch {}
  const of = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1] ?? 0) / 1024;
  return { own: of("RssAnon"), most: of("VmHWM") };
}

function freePort(): Promise<number> {
  const probe = createServer();
  return new Promise((settle) => {
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => settle(port));
    });
  });
}
