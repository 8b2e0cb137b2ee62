/** Workers that listen, for tests with the torch engine: importing PyTorch takes seconds, opening a small model in a worker does not. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
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
    const torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", String(this.#ranks)];
    torchrun.push("--log-dir", temporaryFolder());
    const own = ["-m", "stateset_agents_worker", "--listen", "127.0.0.1:0", "--parent", String(process.pid)];
    const child = spawn(python!, [...(this.#ranks > 1 ? torchrun : []), ...own], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, PYTHONPATH: folder, OMP_NUM_THREADS: "1", CUDA_VISIBLE_DEVICES: "" },
    });
    this.#children.push(child);
    for await (const line of createInterface({ input: child.stdout! })) {
      if (line.startsWith('{"ready"')) return `torch://${(JSON.parse(line) as { address: string }).address}`;
    }
    throw new Error("The worker ended before it was ready.");
  }
}
