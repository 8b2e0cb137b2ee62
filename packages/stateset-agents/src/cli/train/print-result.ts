import { estimateText, number, sparkline } from "../../telemetry/format.ts";
import { endsOf } from "../../telemetry/view-state.ts";
import type { TrainResult } from "../../training/train.ts";
import { type CliIo, colorsOf, print, printJson } from "../io.ts";
import { printNext } from "../run/next.ts";
import { shown } from "../run/place.ts";
import { printDone, resultFacts } from "../run/result.ts";

export interface ResultPlace {
  json: boolean;
  /** What --config was given. */
  config: string | undefined;
  /** What --reward was given: measured by the same. */
  reward: string | undefined;
  /** Scenarios to measure with are there. */
  hasProject: boolean;
}

/** What a finished run came to, and what to do next. */
export function printResult(
  run: TrainResult["run"],
  { json, config, reward, hasProject }: ResultPlace,
  io: CliIo,
): void {
  const { before, after } = run.evaluation ?? {};
  if (json) {
    printJson(io, {
      ...resultFacts(run),
      stub: run.stub,
      weights: run.weights ?? null,
      heldOut: before && after ? { before: before.reward, after: after.reward } : null,
    });
    return;
  }
  const colors = colorsOf(io);
  const rewards = run.metrics.map((record) => record.reward).filter((reward) => reward !== undefined);
  printDone(run, io);
  if (rewards.length > 0) {
    const ends = endsOf(rewards);
    const means = ends ? `${number(ends.first)} → ${number(ends.last)}  ` : "";
    print(
      io,
      `  reward    ${means}${colors.cyan(sparkline(rewards, 40))}${ends ? colors.dim("  first ¼ → last ¼ of the steps") : ""}`,
    );
  }
  if (before && after) {
    print(
      io,
      `  held-out  ${estimateText(before.reward)} → ${estimateText(after.reward)}${after.weightsOf === undefined ? "" : ` (of step ${after.weightsOf})`}`,
    );
  }
  if (run.stub) {
    print(
      io,
      "",
      colors.yellow(
        "This was a stub: scripted replies, nothing was learnt and nothing was saved. Leave --stub out to train.",
      ),
    );
    return;
  }
  if (run.weights) print(io, `  weights   ${run.weights.why}`);
  if (run.finalDir === undefined) return;
  print(io, `  saved     ${shown(run.finalDir, io)}`);
  const checkpoint = ["--checkpoint", shown(run.dir ?? run.finalDir, io)];
  const given = Object.entries({ "--config": config, "--reward": reward });
  const flags = given.flatMap(([flag, value]) => (value === undefined ? [] : [flag, value]));
  const measured = ["evaluate", ...checkpoint, "--scenarios", ...flags];
  printNext([["chat", ...checkpoint], ...(hasProject ? [measured] : [])], io);
}
