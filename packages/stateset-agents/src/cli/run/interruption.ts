import type { LiveView } from "../../telemetry/live-view.ts";
import type { InterruptCode } from "../exit-codes.ts";
import { CliExit } from "../failure.ts";
import { type CliIo, colorsOf, print, printJson } from "../io.ts";
import type { RunCommand } from "./invocation.ts";
import { commandLine, shown } from "./place.ts";

export interface Interruption {
  signal: AbortSignal;
  status(): InterruptCode;
  done(): void;
}

/** First Ctrl-C: stop and save. Second: leave at once. */
export function stopOnInterrupt(
  view: Pick<LiveView, "note">,
  io: CliIo,
  doing = "Saving the steps done",
): Interruption {
  const controller = new AbortController();
  let status: InterruptCode = 130;
  const done = io.onInterrupt((asked) => {
    if (controller.signal.aborted) process.exit(asked);
    status = asked;
    controller.abort();
    view.note(`${doing} … (Ctrl-C again stops at once)`);
  });
  return { signal: controller.signal, status: () => status, done };
}

/** Says how to go on with a run that was stopped, and ends with the status of what stopped it. `said` is how far it came, where it has no step. */
export function interrupted(
  run: { steps: number; dir: string | undefined; said?: string },
  command: RunCommand,
  interruption: Interruption,
  json: boolean,
  io: CliIo,
): CliExit {
  const line = commandLine([command, "--resume", shown(run.dir ?? "", io)]);
  if (json) printJson(io, { type: "interrupted", steps: run.steps, resumeFrom: run.dir, command: line });
  else
    print(
      io,
      "",
      `${run.said ?? `Stopped after step ${run.steps} and saved.`} Go on with:`,
      `  ${colorsOf(io).cyan(line)}`,
    );
  return new CliExit(interruption.status());
}
