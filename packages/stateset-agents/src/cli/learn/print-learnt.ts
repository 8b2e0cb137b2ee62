import type { Project, ProjectParts } from "../../project/build-project.ts";
import type { FitResult } from "../../supervised/fit.ts";
import { number, sparkline } from "../../telemetry/format.ts";
import { type CliIo, colorsOf, print, printJson } from "../io.ts";
import { printNext } from "../run/next.ts";
import { commandLine, shown } from "../run/place.ts";
import { printDone, resultFacts } from "../run/result.ts";
import { harvestNumbers } from "./harvest.ts";
import type { Learner } from "./learner.ts";

/** What a run that learnt from data came to, and what to do next. */
export function printLearnt(
  { losses, run }: FitResult<object>,
  {
    learner,
    project,
    config,
    json,
  }: { learner: Learner<never>; project: ProjectParts | Project; config: string | undefined; json: boolean },
  io: CliIo,
): void {
  const { before, after } = run.evaluation ?? {};
  const next = nextCommands(run.dir ?? run.finalDir ?? "", learner, project, config, io);
  const harvest = learner.command === "best-of-n" && run.dir !== undefined ? harvestNumbers(run.dir) : undefined;
  if (json) {
    printJson(io, {
      ...resultFacts(run),
      ...(harvest && { harvest }),
      loss: { first: losses[0] ?? null, last: losses.at(-1) ?? null },
      heldOut: before && after ? { before: before.numbers, after: after.numbers } : null,
      next: next.map(commandLine),
    });
    return;
  }
  const colors = colorsOf(io);
  printDone(run, io);
  if (harvest) {
    const { sampled, kept, sampledReward, keptReward } = harvest;
    print(io, `  harvest   ${kept} of ${sampled} kept, reward ${number(sampledReward)} → ${number(keptReward)}`);
  }
  if (losses.length > 0)
    print(io, `  loss      ${number(losses[0]!)} → ${number(losses.at(-1)!)}  ${colors.cyan(sparkline(losses, 40))}`);
  if (before && after) {
    const changed = Object.entries(after.numbers).filter(([name, value]) => before.numbers[name] !== value);
    const text = changed.map(([name, value]) => `${name} ${number(before.numbers[name]!)} → ${number(value)}`);
    if (text.length > 0) print(io, `  held-out  ${text.join("  ")}`);
  }
  if (run.finalDir === undefined) return;
  print(io, `  saved     ${shown(run.finalDir, io)}`);
  printNext(next, io);
}

function nextCommands(
  dir: string,
  { command }: Learner<never>,
  project: ProjectParts | Project,
  config: string | undefined,
  io: CliIo,
): string[][] {
  const run = shown(dir, io);
  const own = config === undefined ? [] : ["--config", config];
  const plays = project.config.environment !== undefined;
  if (command === "reward-model") {
    return plays ? [["train", "--reward", run, ...own]] : [["runs", "show", run]];
  }
  const chat = ["chat", "--checkpoint", run];
  if (!plays) return [chat];
  const further =
    command === "best-of-n" ? ["evaluate", "--checkpoint", run, "--scenarios"] : ["train", "--checkpoint", run];
  return [chat, [...further, ...own]];
}
