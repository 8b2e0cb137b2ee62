import type { Tracker } from "../run/tracker.ts";

/** One short line every `every` steps, for scripts that use the library without the CLI. */
export function consoleTracker(
  options: { every?: number; metrics?: readonly string[]; write?: (line: string) => void } = {},
): Tracker {
  const {
    every = 1,
    metrics: chosen = ["reward", "kl", "entropy", "selection/reward", "report/reward"],
    write = (line) => console.log(line),
  } = options;
  return {
    name: "console",
    start: (run) => write(`run ${run.id}`),
    log(step, metrics) {
      if (step % every !== 0) return;
      const parts = chosen
        .filter((name) => metrics[name] !== undefined)
        .map((name) => `${name} ${metrics[name]!.toPrecision(4)}`);
      if (parts.length > 0) write(`step ${step}  ${parts.join("  ")}`);
    },
    finish: (outcome) =>
      write(`${outcome.status} after ${outcome.steps} steps${outcome.error ? `: ${outcome.error}` : ""}`),
  };
}
