import type { DownloadProgress } from "./download-file.ts";

/** Draws how far a file of a model is, on one line of a terminal. */
export function createProgressBar(stream: {
  write(text: string): unknown;
}): (progress: Pick<DownloadProgress, "model" | "bytes" | "total">) => void {
  let drawnAt = 0;
  return ({ model, bytes, total }) => {
    const done = bytes >= total;
    // Ten times a second is enough to look alive.
    if (!done && Date.now() - drawnAt < 100) return;
    drawnAt = Date.now();
    const part = total > 0 ? bytes / total : 1;
    const width = 24;
    const bar = "█".repeat(Math.round(part * width)).padEnd(width, "░");
    stream.write(`\r${model} ${bar} ${Math.floor(part * 100)}% of ${(total / 1e6).toFixed(1)} MB${done ? "\n" : ""}`);
  };
}
