/** Workers that listen, for tests with the torch engine: importing PyTorch takes seconds, opening a small model in a worker does not. */
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll } from "vitest";
import { loadTorchPolicy, type TorchPolicyOptions } from "../src/policy/torch/load.ts";
import type { TorchPolicy } from "../src/policy/torch/torch-policy.ts";
import { temporaryFolder } from "./temporary-folder.ts";

export const python = process.env.STATESET_PYTHON;
const folder = fileURLToPath(new URL("../../../python", import.meta.url));

export class TorchWorkers {
  readonly #ranks: number;
  readonly #free: string[] = [];
  readonly #children: ChildProcess[] = [];

  /** Of so many processes each. They end with the test file. */
  constructor(ranks = 1) {
    this.#ranks = ranks;
    process.env.STATESET_WORKER_TOKEN ??= "a token of the tests";
    afterAll(() => {
      for (const child of this.#children) child.kill("SIGKILL");
    });
  }

  /** In a worker that nobody uses, or one more. */
  async open(options: Omit<TorchPolicyOptions, "torch">): Promise<TorchPolicy> {
    const url = this.#free.pop() ?? (await this.#start());
    const back = () => void this.#free.push(url);
    const policy = await loadTorchPolicy({ ...options, torch: { url, device: "cpu" } }).catch((error: unknown) => {
      back();
      throw error;
    });
    const { close } = policy;
    let closing: Promise<void> | undefined;
    policy.close = () => {
      closing ??= close().then(back);
      return closing;
    };
    return policy;
  }

  async #start(): Promise<string> {
    const { child, url } = await startWorker(this.#ranks);
    child.stderr!.pipe(process.stderr, { end: false });
    this.#children.push(child);
    return url;
  }
}

/** One that listens on a free port of this machine, and ends with this process at the latest. `said`: all that it printed. */
export async function startWorker(
  ranks = 1,
  more: readonly string[] = [],
): Promise<{ child: ChildProcess; url: string; said(): string }> {
  const torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", String(ranks)];
  torchrun.push("--log-dir", temporaryFolder());
  const own = ["-m", "stateset_agents_worker", "--listen", "127.0.0.1:0", "--parent", String(process.pid)];
  const child = spawn(python!, [...(ranks > 1 ? torchrun : []), ...own, ...more], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, PYTHONPATH: folder, OMP_NUM_THREADS: "1", CUDA_VISIBLE_DEVICES: "" },
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
  }
  return new Promise((resolve, reject) => {
    child.stdout.on("data", () => {
      const ready = /^\{"ready".*\}$/m.exec(text)?.[0];
      if (ready === undefined) return;
      resolve({ child, url: `torch://${(JSON.parse(ready) as { address: string }).address}`, said: () => text });
    });
    child.once("close", (code) => reject(new Error(`The worker ended with ${code} before it was ready: ${text}`)));
  });
}
