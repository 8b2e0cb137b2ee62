/** Runs whose policy computes in a process of its own, which may be lost on the way. */
import { appendFileSync } from "node:fs";
import { counted } from "../counted.ts";
import { hasCode, messageOf, StatesetError } from "../error.ts";
import type { Policy } from "../policy/policy.ts";
import { pathIn } from "./layout.ts";
import { type OpenedRun, takeUp } from "./open-run.ts";

/**
 * Does the work of a run. Where the policy's worker is lost it is started anew, at most `restarts` times (one that is lost while it starts
 * counts, too), and the work done again from the run's last checkpoint; without one, from the beginning, if the policy began with the weights
 * it was opened with. Other errors pass through.
 */
export async function survive<State, T>(
  opened: OpenedRun<State>,
  { policy, restarts }: { policy: Policy; restarts: number },
  work: (opened: OpenedRun<State>) => Promise<T>,
): Promise<T> {
  const { run } = opened;
  const began = policy.version;
  const callbacks = await run.callbackStates();
  let from = opened;
  let done = 0;
  /** Answers what is said of the loss, and of those that came of it. */
  const another = async (error: unknown): Promise<string> => {
    if (!policy.revive || !hasCode(error, "WORKER_LOST")) throw error;
    const said = keepSaid(run.dir, error);
    if (run.signal?.aborted) throw error;
    if (done >= restarts) throw done === 0 ? error : given(error, `It was lost ${done + 1} times in this run.`);
    done++;
    try {
      await policy.revive();
    } catch (problem) {
      if (hasCode(problem, "WORKER_LOST")) return `${said} ${await another(problem)}`;
      throw given(error, `No other could be had: ${messageOf(problem)}`);
    }
    return said;
  };
  for (;;) {
    try {
      return await work(from);
    } catch (error) {
      const said = await another(error);
      const checkpoint = await takeUp(run, run.dir);
      if (!checkpoint && policy.version !== began) {
        throw given(error, "The weights the run began with went with it, and there is no checkpoint yet.");
      }
      await run.restore(checkpoint?.state, checkpoint?.step ?? 0, checkpoint ? undefined : callbacks);
      const where = checkpoint ? `goes on ${run.afterSteps}` : "begins again";
      const left = counted(restarts - done, "restart");
      await run.say({ kind: "worker-lost", message: `${said} The run ${where}; ${left} left.` });
      from = { run, checkpoint, takenUp: false };
    }
  }
}

/** Writes all that is known of the loss to the run's folder, where there is one; its first line is for the screen. */
function keepSaid(dir: string | undefined, error: unknown): string {
  const whole = messageOf(error);
  if (dir === undefined) return whole;
  const file = pathIn(dir, "worker");
  try {
    appendFileSync(file, `${new Date().toISOString()} ${whole}\n`);
  } catch {
    // The disk is full, perhaps: that must not be what ends the run.
    return whole;
  }
  const [first] = whole.split("\n");
  return first === whole ? whole : `${first} See ${file}.`;
}

/** The same loss, with why the run does not go on. */
function given(error: unknown, why: string): StatesetError {
  return new StatesetError("WORKER_LOST", `${messageOf(error)} ${why}`, {
    hint: "A run in a folder goes on from its last checkpoint by `resumeFrom` (--resume); checkpoint.every says how often it writes one.",
    cause: error,
  });
}
