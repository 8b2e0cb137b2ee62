/** Opens a model in workers and does not close it, for tests of what is left: `worker-owner.ts <dir> <ranks> (wait | end)`. */
import { loadTorchPolicy } from "../policy/torch/load.ts";

const [dir, ranks, then] = process.argv.slice(2) as [string, string, "wait" | "end"];
const policy = await loadTorchPolicy({ dir, torch: { device: "cpu", gpus: Number(ranks) } });
process.stdout.write(`pids ${JSON.stringify(policy.worker.pids)}\n`);
if (then === "wait") setInterval(() => {}, 1_000);
