/** Opens a model in workers, for tests of what is left of them: `worker-owner.ts <dir> <ranks> (wait | end | close)`. */
import { loadTorchPolicy } from "../policy/torch/load.ts";

const [dir, ranks, then] = process.argv.slice(2) as [string, string, "wait" | "end" | "close"];
const policy = await loadTorchPolicy({ dir, torch: { device: "cpu", gpus: Number(ranks) } });
process.stdout.write(`pids ${JSON.stringify(policy.worker.pids)}\n`);
if (then === "wait") setInterval(() => {}, 1_000);
if (then === "close") {
  await policy.close();
  process.stdout.write("closed\n");
}
