import { readFileSync } from "node:fs";
import { freemem } from "node:os";
import type { EngineConfig } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";

/** How many numbers a model of this shape has. */
export function parameterCount(c: EngineConfig): number {
  const [q, kv] = [c.heads * c.headDim, c.kvHeads * c.headDim];
  const norm = (c.norm === "layer" ? 2 : 1) * c.hidden;
  const attention = c.hidden * (q + 2 * kv) + q * c.hidden;
  const attentionBias = (c.qkvBias ? q + 2 * kv : 0) + (c.outBias ? c.hidden : 0) + (c.qkNorm ? 2 * c.headDim : 0);
  const gates = c.mlp === "swiglu" ? 2 : 1;
  const mlp = (gates + 1) * c.hidden * c.inter + (c.mlpBias ? gates * c.inter + c.hidden : 0);
  const positions = c.position === "learned" ? c.maxPositions * c.hidden : 0;
  const embeddings = (c.tied ? 1 : 2) * c.vocab * c.hidden;
  return embeddings + positions + norm + c.layers * (attention + attentionBias + mlp + 2 * norm);
}

/** Bytes this process can still get: what the system calls available, or less in a container with a limit. */
export function availableMemory(): number {
  let available = freemem();
  if (process.platform === "linux") {
    // MemFree leaves out what the page cache would give back; MemAvailable does not.
    const line = /^MemAvailable:\s+(\d+) kB/m.exec(readProc("/proc/meminfo"));
    if (line) available = Number(line[1]) * 1024;
  }
  const limit = process.constrainedMemory();
  if (limit > 0 && limit < 2 ** 50) available = Math.min(available, limit - process.memoryUsage.rss());
  return Math.max(0, available);
}

function readProc(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** Throws before anything is allocated when `bytes` will not fit. */
export function foresee(bytes: number, what: string, hint: string, available = availableMemory()): void {
  if (bytes <= available) return;
  const gib = (value: number) => `${(value / 2 ** 30).toFixed(value < 2 ** 30 ? 2 : 1)} GiB`;
  throw new StatesetError("OUT_OF_MEMORY", `${what} needs about ${gib(bytes)}, and ${gib(available)} are available.`, {
    hint,
  });
}
