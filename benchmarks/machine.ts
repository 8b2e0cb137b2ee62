import { availableParallelism, cpus, totalmem } from "node:os";

/** What results are worth nothing without: "2 cores (Intel Xeon …), 8 GiB, linux x64, Node 20.20.0". */
export function describeMachine(): string {
  const model = cpus()[0]?.model.trim() ?? "unknown processor";
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${availableParallelism()} cores (${model}), ${memory} GiB, ${process.platform} ${process.arch}, Node ${process.versions.node}`;
}
