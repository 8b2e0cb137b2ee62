/** Conversations that are held outside of a run, whose live view would show them: a line that says how far they are. */
import type { RolloutProgress } from "../../rollout/rollout.ts";
import { duration } from "../../telemetry/format.ts";
import { progressText } from "../../telemetry/plain-lines.ts";
import type { CliIo } from "../io.ts";

/** On a terminal one line that is written anew; elsewhere a line now and then. */
const [redrawMs, tellMs] = [200, 10_000];

/** Does the work, and shows its progress on standard error unless `quiet`. */
export async function watching<T>(
  quiet: boolean | undefined,
  { stderr, env }: CliIo,
  work: (onProgress: (progress: RolloutProgress) => void) => Promise<T>,
): Promise<T> {
  let now: RolloutProgress | undefined;
  let phaseMs = performance.now();
  const startedMs = phaseMs;
  const text = () => {
    if (!now) return undefined;
    const nowMs = performance.now();
    const { done, of } = now;
    // All are under way at once, and the first to end say little of the last.
    const left =
      done >= of / 2 && done < of ? `  about ${duration(((nowMs - phaseMs) / done) * (of - done))} left` : "";
    return `${progressText({ step: 0, ...now }, nowMs - startedMs)}${left}`;
  };
  const tty = stderr.isTTY === true && env.TERM !== "dumb";
  const show = () => {
    const line = text();
    if (line === undefined) return;
    stderr.write(tty ? `\r\x1b[K${line.slice(0, (stderr.columns ?? 80) - 1)}` : `${line}\n`);
  };
  const clock = quiet ? undefined : setInterval(show, tty ? redrawMs : tellMs).unref();
  try {
    return await work((progress) => {
      if (progress.phase !== now?.phase) phaseMs = performance.now();
      now = progress;
    });
  } finally {
    clearInterval(clock);
    if (clock && tty && now) stderr.write("\r\x1b[K");
  }
}
