/** Opens a model in workers, for tests of what is left of them: `worker-owner.ts <dir> <ranks> (wait | end | close | hurry)`. */
import { ChildProcess } from "node:child_process";
import { EventEmitter } from "node:events";
import { loadTorchPolicy } from "../policy/torch/load.ts";

const [dir, ranks, then] = process.argv.slice(2) as [string, string, "wait" | "end" | "close" | "hurry"];
const policy = await loadTorchPolicy({ dir, torch: { device: "cpu", gpus: Number(ranks) } });
process.stdout.write(`pids ${JSON.stringify(policy.worker.pids)}\n`);
if (then === "wait") setInterval(() => {}, 1_000);
if (then === "hurry") {
  // Ends between the end of the worker and that of its output, as a second Ctrl-C may.
  const { emit } = EventEmitter.prototype;
  ChildProcess.prototype.emit = function (name: string, ...rest: unknown[]) {
    const heard = emit.call(this, name, ...rest);
    return name === "exit" ? process.exit() : heard;
  };
}
if (then === "close" || then === "hurry") {
  await policy.close();
  process.stdout.write("closed\n");
}
