import { readFileSync } from "node:fs";

/** Bytes that this process held at its peak. */
export function peakMemory(): number {
  try {
    const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"));
    if (peak) return Number(peak[1]) * 1024;
  } catch {
    // No /proc: not Linux.
  }
  return process.resourceUsage().maxRSS * 1024;
}
