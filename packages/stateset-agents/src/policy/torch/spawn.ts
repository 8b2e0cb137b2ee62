/** A worker of this process: started for one policy, ended with it. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { messageOf, StatesetError } from "../../error.ts";
import { redactor } from "../../network.ts";
import { Connection, type Loss } from "./connection.ts";
import { findPython, workerFolder } from "./find-python.ts";
import { greet } from "./greet.ts";
import { LogLines } from "./log-lines.ts";
import { type Ending, lostWorker, unstarted } from "./what-happened.ts";
import type { WorkerFacts, WorkerLink } from "./worker-link.ts";

export interface SpawnOptions {
  python?: string | undefined;
  device: "cuda" | "cpu";
  ranks: number;
  deadlineMs: number;
  pingMs?: number | undefined;
  /** For worker.log, and the stacks of a worker that stalled. */
  logDir?: string | undefined;
  onBeat?: (() => void) | undefined;
}

/** How long it may take until it is known what ended a worker: torchrun first ends its other ranks. */
const endingMs = 5_000;

/** Bytes of a path that leave room for what comes after it: the kernel takes 104 in all, with the zero at their end; Linux 108. */
const longestPrefix = 103 - "XXXXXX/socket".length;

/** With the folder of each, for as long as that is there. */
const alive = new Map<ChildProcess, string>();
let watching = false;

export async function spawnWorker(options: SpawnOptions): Promise<WorkerLink> {
  const python = findPython(options.python);
  const module = workerFolder();
  const log = new LogLines(options.logDir, redactor([["token", process.env.STATESET_WORKER_TOKEN]]));
  const dir = privateFolder();
  const socketPath = join(dir, "socket");
  const stacksDir = join(options.logDir ?? dir, "stacks");
  const child = start(python, module, socketPath, stacksDir, options);
  const ending = endingOf(child);
  let hello: WorkerFacts | undefined;
  const cleanUp = async () => {
    kill(child, hello);
    // Whoever closes it waits for its end, and goes on afterwards.
    attend(child, true);
    await ending;
    rmSync(dir, { recursive: true, force: true });
    alive.delete(child);
  };
  const explain = async (loss: Loss): Promise<StatesetError> => {
    const whole = { ...loss, ...(loss.stalled && loss.stacks === undefined && (await askForStacks(stacksDir, hello))) };
    const ended = loss.stalled ? undefined : await within(ending, endingMs);
    await cleanUp();
    return lostWorker(whole, { ended, log, ranks: options.ranks });
  };

  try {
    await ready(child, log, ending, options, python);
    const { deadlineMs, pingMs, onBeat } = options;
    const socket = await open(socketPath).catch(async () => {
      throw await explain({ what: "could not be reached", stalled: false });
    });
    const connection = new Connection(socket, { deadlineMs, pingMs, onBeat, explain });
    hello = await greet(connection, "its own socket", undefined);
    // From here on only calls keep this process alive.
    attend(child, false);
    return {
      connection,
      hello,
      // It keeps nothing that would have to be written first.
      async close(error) {
        connection.close(error);
        await cleanUp();
      },
    };
  } catch (error) {
    await cleanUp();
    throw error;
  }
}

/** Of this user alone: whoever can open the socket in it is obeyed. */
function privateFolder(): string {
  const refused = (what: string, cause?: unknown) =>
    new StatesetError("WRITE_FAILED", `There is no place for the socket of the PyTorch worker: ${what}.`, {
      hint: "Name another folder for temporary files by the environment variable TMPDIR.",
      cause,
    });
  const prefix = join(tmpdir(), "stateset-worker-");
  if (Buffer.byteLength(prefix) > longestPrefix) throw refused(`a socket's path is short, and ${tmpdir()} is long`);
  try {
    return mkdtempSync(prefix);
  } catch (cause) {
    throw refused(messageOf(cause), cause);
  }
}

function start(
  python: string,
  module: string,
  socketPath: string,
  stacksDir: string,
  { ranks, device }: SpawnOptions,
): ChildProcess {
  const own = ["--socket", socketPath, "--parent", String(process.pid), "--stacks-dir", stacksDir];
  const torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", String(ranks)];
  // Where it is ended it cleans up no more.
  torchrun.push("--local-addr", "127.0.0.1", "--log-dir", join(dirname(socketPath), "torchrun"));
  const args = [...(ranks > 1 ? torchrun : []), "-m", "stateset_agents_worker", ...own];
  const { STATESET_WORKER_TOKEN: _, ...env } = process.env;
  const child = spawn(python, args, {
    // A group of its own: Ctrl-C is for this process, which may want to finish a step, and all of the group can be ended at once.
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...env,
      PYTHONPATH: [module, env.PYTHONPATH].filter(Boolean).join(delimiter),
      PYTHONUNBUFFERED: "1",
      // Models are fetched here, where it is said what is downloaded.
      HF_HUB_OFFLINE: "1",
      ...(device === "cpu" && { CUDA_VISIBLE_DEVICES: "" }),
    },
  });
  alive.set(child, dirname(socketPath));
  if (!watching) process.on("exit", endAll);
  watching = true;
  return child;
}

function endAll(): void {
  for (const [child, dir] of alive) {
    kill(child);
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Resolves when it takes calls, which it says on a line of its own. */
async function ready(
  child: ChildProcess,
  log: LogLines,
  ending: Promise<Ending>,
  options: SpawnOptions,
  python: string,
) {
  const said = new Promise<true>((resolve) => {
    let begun = "";
    for (const stream of [child.stdout!, child.stderr!]) {
      stream.setEncoding("utf8");
      stream.on("data", (chunk: string) => {
        log.take(chunk);
        begun = `${begun}${chunk}`.slice(-4_096);
        if (begun.includes('{"ready": true')) resolve(true);
      });
      stream.on("close", () => log.finish());
    }
  });
  const outcome = await within(Promise.race([said, ending]), options.deadlineMs);
  if (outcome !== true) throw unstarted(outcome, { log, python, ranks: options.ranks });
}

function endingOf(child: ChildProcess): Promise<Ending> {
  return new Promise((resolve) => {
    // What could not be started at all has no output to wait for.
    child.once("error", (error) => resolve({ code: null, signal: null, failure: messageOf(error) }));
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
}

function open(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(path, () => resolve(socket.off("error", reject)));
    socket.once("error", reject);
  });
}

/** Whether this process stays alive for it. */
function attend(child: ChildProcess, wait: boolean): void {
  for (const one of [child, child.stdout as Socket, child.stderr as Socket]) {
    if (wait) one.ref();
    else one.unref();
  }
}

/** Where rank 0 does not answer: each rank writes what its threads are doing by itself, whatever holds them up. */
async function askForStacks(dir: string, hello: WorkerFacts | undefined): Promise<Pick<Loss, "stacks" | "silent">> {
  const ranks = (hello?.pids ?? []).map((pid, rank) => ({ pid, rank, file: join(dir, `rank-${rank}.txt`) }));
  const read = (file: string) => (existsSync(file) ? readFileSync(file) : Buffer.alloc(0));
  const before = ranks.map(({ file }) => read(file).length);
  for (const { pid } of ranks) send(pid, "SIGUSR1");
  await new Promise((resolve) => setTimeout(resolve, 500));
  const written = ranks.map(({ file, rank }) => ({ rank, text: read(file).subarray(before[rank]).toString() }));
  return {
    stacks: written.map(({ rank, text }) => `Rank ${rank}:\n${text || "(no answer)"}`).join("\n"),
    silent: written.filter(({ text }) => text === "").map(({ rank }) => rank),
  };
}

/** With torchrun its ranks end; those that are known are told themselves, since each has a group of its own. */
function kill(child: ChildProcess, hello?: WorkerFacts): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  send(-child.pid, "SIGKILL");
  for (const pid of hello?.pids ?? []) send(pid, "SIGKILL");
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It is gone.
  }
}

async function within<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, ms, undefined);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
