/** The processes that are measured: a server of ours, its clients, and the peers, each on its own. */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** What a program answers with on its last line. */
export function run<T>(
  file: "ours.mjs" | "clients.mjs" | "llama.mjs",
  ...args: readonly (string | object)[]
): Promise<T> {
  const texts = args.map((arg) => (typeof arg === "string" ? arg : JSON.stringify(arg)));
  const child = spawn(process.execPath, [here(`./${file}`), ...texts], { stdio: ["ignore", "pipe", "pipe"] });
  let [output, complaints] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    complaints = (complaints + text).slice(-2000);
  });
  return new Promise((settle, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      if (code !== 0) return reject(new Error(`${file} failed (${code}): ${complaints.trim()}`));
      settle(JSON.parse(output.trim().split("\n").at(-1)!) as T);
    });
  });
}

export interface Load {
  url: string;
  model: string;
  streams: number;
  rounds: number;
  maxTokens: number;
  /** More fields of each request. */
  extra?: object;
  /** Tell the moments of all events. */
  events?: boolean;
}

export interface Served {
  tokens: number;
  ms: number;
  firstMs: number[];
  /** Of each reply, on the clock of performance.timeOrigin + performance.now(). */
  at?: number[][];
}

export function askMany(load: Load): Promise<Served> {
  return run<Served>("clients.mjs", load);
}

export interface OurServer {
  url: string;
  cpuMs(): Promise<number>;
  /** When loading began and ended. */
  load(folder: string): Promise<{ began: number; ended: number }>;
  end(): Promise<void>;
}

export async function startOurs(options: { model: string; threads?: number; slots?: number }): Promise<OurServer> {
  const child = fork(here("./ours.mjs"), ["serve", JSON.stringify(options)], { execArgv: [] });
  const ended = new Promise<void>((settle) => child.once("exit", () => settle()));
  const waiting = new Map<number, (answer: unknown) => void>();
  let last = 0;
  const answerTo = <T>(id: number) =>
    new Promise<T>((settle, reject) => {
      waiting.set(id, settle as (answer: unknown) => void);
      void ended.then(() => reject(new Error("The server's process ended.")));
    });
  child.on("message", ({ id, answer }: { id: number; answer: unknown }) => waiting.get(id)?.(answer));
  const url = await answerTo<string>(0);
  const ask = <T>(what: string, more: object = {}) => {
    child.send({ id: ++last, what, ...more });
    return answerTo<T>(last);
  };
  return {
    url,
    cpuMs: () => ask("cpu"),
    load: (folder) => ask("load", { folder }),
    end() {
      child.disconnect();
      return ended;
    },
  };
}

export interface Peer {
  url: string;
  end(): Promise<void>;
}

/** `transformers serve` on the processor, in f32, with the interpreter of STATESET_PYTHON. */
export async function startTransformers(python: string, model: string, more: readonly string[] = []): Promise<Peer> {
  const port = await freePort();
  const args = ["-m", "transformers.cli.transformers", "serve", model, "--device", "cpu", "--dtype", "float32"];
  const home = mkdtempSync(join(tmpdir(), "stateset-bench-hf-"));
  const child = spawn(python, [...args, "--port", String(port), ...more], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, HF_HUB_OFFLINE: "1", HF_HOME: home },
  });
  let complaints = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    complaints = (complaints + text).slice(-2000);
  });
  const url = `http://127.0.0.1:${port}`;
  const end = async () => {
    await ending(child);
    rmSync(home, { recursive: true, force: true });
  };
  for (let tries = 0; tries < 240; tries++) {
    if (child.exitCode !== null) break;
    if (
      await fetch(`${url}/health`)
        .then(({ ok }) => ok)
        .catch(() => false)
    )
      return { url, end };
    await sleep(500);
  }
  await end();
  throw new Error(`transformers serve did not start: ${complaints.trim().split("\n").at(-1)}`);
}

async function ending(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise<void>((settle) => child.once("exit", () => settle()));
  child.kill("SIGKILL");
  await gone;
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
