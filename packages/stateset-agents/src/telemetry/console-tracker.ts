import { z } from "zod";
import { counted } from "../counted.ts";
import { parseOptions } from "../options.ts";
import type { MetricName, Metrics } from "../run/metrics.ts";
import type { Tracker } from "../run/tracker.ts";
import { headOf } from "./plain-lines.ts";

export interface ConsoleTrackerOptions {
  /** Steps between lines. Evaluations are always printed. Default 1. */
  every?: number;
  /** Default: the reward, or for runs that have none the loss; kl, entropy; what evaluations say. */
  metrics?: readonly MetricName[];
  write?: (line: string) => void;
}

const ofEvaluations = [
  "selection/reward",
  "report/reward",
  "held-out/loss",
  "held-out/accuracy",
] as const satisfies MetricName[];

/** A loss by reinforcement is no measure of success, so it is said only where there is no reward. */
function usual(metrics: Readonly<Metrics>): readonly MetricName[] {
  return [metrics.reward === undefined ? "loss" : "reward", "kl", "entropy", ...ofEvaluations];
}

const schema = z.strictObject({
  every: z.int().min(1).default(1),
  metrics: z.array(z.string()).optional(),
  write: z.custom<(line: string) => void>((value) => typeof value === "function", "expected a function").optional(),
});

/** One short line every `every` steps, for scripts that use the library without the CLI. */
export function consoleTracker(options: ConsoleTrackerOptions = {}): Tracker {
  const {
    every,
    metrics,
    write = (line: string) => console.log(line),
  } = parseOptions(schema, options, "consoleTracker");
  const chosen = metrics as readonly MetricName[] | undefined;
  return {
    name: "console",
    start: (run) => write(`run ${run.id}`),
    log(step, metrics) {
      if (step % every !== 0 && ofEvaluations.every((name) => metrics[name] === undefined)) return;
      const parts = (chosen ?? usual(metrics)).flatMap((name) => {
        const value = metrics[name];
        return value === undefined ? [] : [`${name} ${value.toPrecision(4)}`];
      });
      if (parts.length > 0) write(`step ${step}  ${parts.join("  ")}`);
    },
    finish: (outcome) =>
      write(
        `${outcome.status} after ${counted(outcome.steps, "step")}${outcome.error ? `: ${headOf(outcome.error)}` : ""}`,
      ),
  };
}
