/** What became of a worker, in words: from how it ended and what it said last. */
import { StatesetError } from "../../error.ts";
import type { Loss } from "./connection.ts";
import { lacks } from "./greet.ts";
import type { LogLines } from "./log-lines.ts";

/** How the process ended: with a code, by a signal, or without having begun. */
export interface Ending {
  code: number | null;
  signal: NodeJS.Signals | null;
  failure?: string;
}

const setUp = "`stateset-agents setup-gpu` installs what the worker needs.";

export function lostWorker(
  loss: Loss,
  { ended, log, ranks }: { ended: Ending | undefined; log: LogLines; ranks: number },
): StatesetError {
  const who =
    ranks === 1 ? ended && { rank: 0, how: inWords(ended) } : (failedRank(log) ?? (ended && { how: inWords(ended) }));
  const how = who ? `: ${"rank" in who ? `rank ${who.rank}` : "torchrun"} ended ${who.how}` : "";
  const hints = [
    who?.how.includes("SIGKILL") ? "SIGKILL often means that the machine had no memory left." : "",
    log.file === undefined
      ? ""
      : `All it said is in ${log.file}${loss.stalled ? ", what it was doing in stacks/ beside it" : ""}.`,
    loss.stacks !== undefined && log.file === undefined ? wasDoing(loss.stacks) : "",
  ];
  const hint = hints.filter(Boolean).join(" ");
  return new StatesetError(
    "WORKER_LOST",
    `The PyTorch worker ${loss.what}${silence(loss)}${how}.${lastLines(log)}`,
    hint ? { hint } : {},
  );
}

/** Which ranks are stopped or hang where no signal reaches them; the others wait for them. */
export function silence({ silent = [] }: Loss): string {
  if (silent.length === 0) return "";
  return `, and rank${silent.length === 1 ? "" : "s"} ${silent.join(", ")} did not say where`;
}

export const wasDoing = (stacks: string) => `It was doing this:\n${stacks}`;

/** Of one that ended, or said nothing, before it took calls. */
export function unstarted(
  ended: Ending | undefined,
  { log, python, ranks }: { log: LogLines; python: string; ranks: number },
): StatesetError {
  const said = log.last(200).join("\n");
  const unavailable = (what: string, hint: string) => new StatesetError("ENGINE_UNAVAILABLE", what, { hint });
  if (ended?.failure !== undefined) return unavailable(`${python} could not be started: ${ended.failure}.`, setUp);
  const module = /No module named '?([\w.]+)/.exec(said)?.[1];
  if (module !== undefined) return lacks(python, module.split(".")[0]!);
  const seen = /wants GPU \d+, and this machine shows (\d+)/.exec(said)?.[1];
  if (seen !== undefined) {
    return unavailable(
      `${ranks} GPUs are asked for, and PyTorch sees ${seen}.`,
      "Ask for fewer (torch.gpus), or look at nvidia-smi and CUDA_VISIBLE_DEVICES.",
    );
  }
  // Somebody ended it, as happens to one that is at work: another may fare better.
  const killed = ranks === 1 ? ended?.signal : failedRank(log)?.signal;
  if (killed) return lostWorker({ what: "was lost before it was ready", stalled: false }, { ended, log, ranks });
  const how = ended ? `ended ${inWords(ended)} before it was ready` : "was not ready in time";
  return unavailable(
    `The PyTorch worker of ${python} ${how}.${lastLines(log)}`,
    `\`stateset-agents doctor\` says what is there; ${setUp}`,
  );
}

function inWords({ code, signal, failure }: Ending): string {
  return failure ?? (signal === null ? `with exit code ${code}` : `by ${signal}`);
}

/** torchrun tells which of its ranks failed first. */
function failedRank(log: LogLines): { rank: number; how: string; signal: string | undefined } | undefined {
  const said = log.last(200).join("\n");
  const cause = said.slice(Math.max(0, said.lastIndexOf("Root Cause")));
  const rank = /\brank\s*:\s*(\d+)/.exec(cause)?.[1] ?? /local_rank: (\d+)/.exec(said)?.[1];
  const code = /exitcode\s*:\s*(-?\d+)/.exec(cause)?.[1] ?? /exitcode: (-?\d+)/.exec(said)?.[1];
  if (rank === undefined || code === undefined) return undefined;
  const signal = /Signal \d+ \((\w+)\)/.exec(cause)?.[1];
  return { rank: Number(rank), how: signal === undefined ? `with exit code ${code}` : `by ${signal}`, signal };
}

function lastLines(log: LogLines): string {
  const lines = log.last(20);
  // From a line of its own on: a warning shows the first alone.
  return lines.length === 0 ? "" : `\nIts last lines:\n${lines.map((line) => `  ${line}`).join("\n")}\n`;
}
