import { rmSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { Argument, type Command } from "commander";
import { counted } from "../../counted.ts";
import { StatesetError } from "../../error.ts";
import { trackerNamed, trackerNames } from "../../project/names.ts";
import { changesBetween } from "../../run/config.ts";
import { evaluationMetrics } from "../../run/evaluation-metrics.ts";
import type { RunEvent, StepMetrics } from "../../run/event.ts";
import { pathIn } from "../../run/layout.ts";
import { holderOf, lockRun } from "../../run/lock.ts";
import { readJsonLines } from "../../run/log.ts";
import { finiteMetrics } from "../../run/metrics.ts";
import { readNotes } from "../../run/notes.ts";
import { abandonedIn, findRun, listRuns, type RunInfo, sizeOf } from "../../run/read-run.ts";
import { outcomeOf } from "../../run/tracker.ts";
import { bytes, number, sparkline, table } from "../../telemetry/format.ts";
import { type CliIo, colorsOf, print, printJson } from "../io.ts";
import { modelLabel } from "../model-label.ts";
import { commandOf } from "../run/invocation.ts";
import { commandLine, shown } from "../run/place.ts";
import { wholeNumber } from "../values.ts";
import { addNotes, notesJson, printNotes, tagsText } from "./runs-notes.ts";

interface Common {
  dir: string;
  json?: boolean;
}

export function addRuns(program: Command, io: CliIo): void {
  const runs = program.command("runs").description("Look at past runs: list, show, compare, label, export, clean up.");
  const add = (name: string, description: string) =>
    runs
      .command(name)
      .description(description)
      .option("--dir <folder>", "the folder that holds the runs", "runs")
      .option("--json", "print JSON");
  const at = (options: Common) => resolve(io.cwd, options.dir);

  add("list", "List runs, the newest first.")
    .option("--all", "also those that are put away")
    .action((options: Common & { all?: boolean }) => list(io, listRuns(at(options)), options));
  add("show", "Show one run: its settings, its curve, its files.")
    .argument("<run>", 'a run\'s name or folder, or "last"')
    .action((name: string, options: Common) => show(io, findRun(at(options), name, io.cwd), options));
  add("diff", "Show where the settings and the results of two runs differ.")
    .argument("<a>", "a run")
    .argument("<b>", "another run")
    .action((a: string, b: string, options: Common) =>
      diff(io, findRun(at(options), a, io.cwd), findRun(at(options), b, io.cwd), options),
    );
  addNotes(io, add, (name, options) => findRun(at(options), name, io.cwd));
  add("export", "Write a run's numbers for another tool.")
    .argument("<run>", 'a run\'s name or folder, or "last"')
    .addArgument(new Argument("<tool>", "the tool").choices(trackerNames))
    .action((name: string, tool: string, options: Common) =>
      exportRun(io, findRun(at(options), name, io.cwd), tool, options),
    );
  add("prune", "Remove old runs, or the checkpoints of finished ones. Says what it would remove unless --yes is given.")
    .option("--keep <n>", "how many of the newest runs stay", wholeNumber)
    .option("--checkpoints", "remove only the checkpoints of finished runs (final/ stays)")
    .option("--yes", "really remove")
    .action((options: Common & { keep?: number; checkpoints?: boolean; yes?: boolean }) =>
      prune(io, at(options), options),
    );
}

function summary(run: RunInfo) {
  const { id, dir, state, reason, problem, step, steps, config, metrics } = run;
  return {
    id,
    dir,
    status: state,
    reason: reason ?? problem ?? null,
    steps: step,
    totalSteps: steps ?? null,
    learner: learnerOf(run) ?? null,
    model: config?.model.name ?? null,
    reward: metrics.at(-1)?.reward ?? null,
    loss: metrics.at(-1)?.loss ?? null,
    startedAt: new Date(run.startedAt).toISOString(),
    bytes: sizeOf(dir),
    ...notesJson(readNotes(dir)),
  };
}

function learnerOf({ config }: RunInfo): string | undefined {
  return config?.algorithm?.algorithm ?? config?.learner;
}

/** What a run is looked at for: its reward, or where it has none its loss. */
function curveOf({ metrics }: RunInfo): { name: "reward" | "loss"; values: number[] } {
  const of = (name: "reward" | "loss") => metrics.map((record) => record[name]).filter((value) => value !== undefined);
  const rewards = of("reward");
  return rewards.length > 0 ? { name: "reward", values: rewards } : { name: "loss", values: of("loss") };
}

const marks = {
  running: "●",
  finished: "✓",
  "stopped-early": "✓",
  interrupted: "…",
  failed: "✗",
  lost: "?",
} as const satisfies Record<RunInfo["state"], string>;

function list(io: CliIo, found: readonly RunInfo[], { json, all }: Common & { all?: boolean }): void {
  const colors = colorsOf(io);
  const runs = all ? found : found.filter(({ dir }) => !readNotes(dir).archived);
  if (json) {
    printJson(io, runs.map(summary));
    return;
  }
  if (found.length === 0) {
    print(io, "No runs yet. Train one with `npx stateset-agents train`.");
    return;
  }
  const away = found.length - runs.length;
  const awayText = colors.dim(`${counted(away, "run")} put away: --all shows ${away === 1 ? "it" : "them"}.`);
  if (runs.length === 0) {
    print(io, awayText);
    return;
  }
  const rows = runs.map((run) => {
    const { status, steps, totalSteps, bytes: size, tags, archived } = summary(run);
    const { name, values } = curveOf(run);
    const mark = status === "finished" || status === "stopped-early" ? colors.green : colors.yellow;
    return [
      `${mark(marks[status])} ${run.id}`,
      run.problem === undefined ? status : "unreadable",
      learnerOf(run) ?? "–",
      `${steps}/${totalSteps ?? "?"}`,
      values.length === 0 ? "–" : `${name} ${number(values.at(-1)!)}`,
      colors.cyan(sparkline(values, 16)),
      bytes(size),
      [...(archived ? ["(archived)"] : []), tagsText({ tags })].join(" ").trim(),
    ];
  });
  print(io, ...table(["  run", "state", "learner", "steps", "last", "curve", "size", "tags"], rows, colors.dim));
  if (away > 0) print(io, awayText);
}

function show(io: CliIo, run: RunInfo, { json }: Common): void {
  const colors = colorsOf(io);
  const last = run.metrics.at(-1);
  if (json) {
    const { config, checkpoints, best } = run;
    printJson(io, { ...summary(run), config: config ?? null, last: last ?? null, checkpoints, best: best ?? null });
    return;
  }
  const { config, state, step, steps, reason, problem } = run;
  print(io, `${colors.bold(run.id)}  ${state}, ${step} of ${steps ?? "?"} steps`, colors.dim(run.dir));
  for (const said of [reason, problem]) if (said !== undefined) print(io, colors.yellow(said));
  print(io, "");
  if (config) {
    const { profile, seed } = config.settings;
    const facts = [learnerOf(run), ...(profile === undefined ? [] : [`${profile} profile`]), `seed ${seed}`];
    print(io, `model      ${modelLabel(config.model.name)}`, `learner    ${facts.join(", ")}`);
    if (config.forkedFrom) print(io, `split off  ${config.forkedFrom.run}, after step ${config.forkedFrom.step}`);
  }
  printNotes(io, run.dir);
  const { name, values } = curveOf(run);
  if (values.length > 0) {
    const ends = `${number(values[0]!)} → ${number(values.at(-1)!)}`;
    print(io, `${name.padEnd(11)}${ends}  ${colors.cyan(sparkline(values, 40))}`);
  }
  if (last) {
    const shown = (["rewardStd", "kl", "entropy", "clipFraction", "gradNorm", "replyTokens"] as const).filter(
      (metric) => last[metric] !== undefined,
    );
    if (shown.length > 0)
      print(io, `last step  ${shown.map((metric) => `${metric} ${number(last[metric]!)}`).join(", ")}`);
  }
  const { checkpoints } = run;
  const size = checkpoints.reduce((sum, dir) => sum + sizeOf(dir), 0);
  print(io, "", `checkpoints (${checkpoints.length}, ${bytes(size)}), ${bytes(sizeOf(run.dir))} in all`);
  for (const dir of checkpoints) print(io, `  ${basename(dir)}${dir === run.best ? colors.green("  best") : ""}`);
  const command = commandOf(run.dir, config?.learner);
  if (command === undefined || state === "running") return;
  const own = shown(run.dir, io);
  const done = command === "reward-model" ? ["train", "--reward", own] : ["chat", "--checkpoint", own];
  print(io, "", colors.dim(`next: ${commandLine(state === "finished" ? done : [command, "--resume", own])}`));
}

function diff(io: CliIo, a: RunInfo, b: RunInfo, { json }: Common): void {
  for (const { problem } of [a, b]) if (problem !== undefined) throw new StatesetError("CHECKPOINT_INVALID", problem);
  const settings = changesBetween(a.config!, b.config!).map(({ path, before, now }) => ({ path, a: before, b: now }));
  // What both are looked at for; runs of two kinds have no number in common.
  const [name, other] = [curveOf(a).name, curveOf(b).name];
  const last = (metric: typeof name) => ({
    a: a.metrics.at(-1)?.[metric] ?? null,
    b: b.metrics.at(-1)?.[metric] ?? null,
  });
  if (json) {
    printJson(io, { a: a.id, b: b.id, settings, reward: last("reward"), loss: last("loss") });
    return;
  }
  const text = (value: unknown) =>
    value === undefined ? "–" : shortened(typeof value === "string" ? value : JSON.stringify(value));
  const rows = settings.map(({ path, a: left, b: right }) => [path, text(left), text(right)]);
  if (rows.length === 0) print(io, "The settings are the same.");
  else print(io, ...table(["setting", a.id, b.id], rows, colorsOf(io).dim));
  if (name !== other) return;
  const [left, right] = Object.values(last(name)).map((value) => (value === null ? "–" : number(value)));
  print(io, "", `last ${name}  ${left}  ${right}`);
}

function shortened(text: string): string {
  const line = text.replaceAll("\n", "⏎");
  return line.length <= 60 ? line : `${line.slice(0, 59)}…`;
}

async function exportRun(io: CliIo, run: RunInfo, tool: string, { json }: Common): Promise<void> {
  const tracker = trackerNamed(tool, "runs export");
  await tracker.start({ id: run.id, dir: run.dir, config: { ...run.config } });
  for (const { step, ...metrics } of told(run)) await tracker.log(step, metrics);
  await tracker.finish({ status: outcomeOf(run.state), steps: run.step });
  const folder = join(run.dir, tool);
  if (json) return printJson(io, { run: run.id, tool, folder, steps: run.metrics.length });
  const next = tool === "wandb" ? `wandb sync ${folder}/offline-run-*` : `tensorboard --logdir ${folder}`;
  print(io, `Wrote ${counted(run.metrics.length, "step")} to ${folder}.`, colorsOf(io).dim(`next: ${next}`));
}

/** What a tracker would have been told: steps and evaluations in their order. */
function told({ dir }: RunInfo): StepMetrics[] {
  return readJsonLines<RunEvent>(pathIn(dir, "events")).flatMap((event) => {
    if (event.type === "step") return [event.metrics];
    return event.type === "evaluation" ? [finiteMetrics(event.step, evaluationMetrics(event))] : [];
  });
}

function prune(
  io: CliIo,
  folder: string,
  { keep, checkpoints, yes, json }: Common & { keep?: number; checkpoints?: boolean; yes?: boolean },
): void {
  const runs = listRuns(folder);
  const abandoned = checkpoints ? [] : abandonedIn(folder);
  const chosen = checkpoints
    ? runs.filter((run) => run.state === "finished" && run.checkpoints.length > 0)
    : runs.slice(keep ?? 10);
  const live = chosen.filter(({ dir }) => holderOf(dir) !== undefined);
  const idle = chosen.filter((run) => !live.includes(run));
  const paths = [...idle.map(({ dir }) => (checkpoints ? pathIn(dir, "checkpoints") : dir)), ...abandoned];
  const freed = paths.reduce((sum, path) => sum + sizeOf(path), 0);
  if (yes) {
    for (const { dir } of idle) remove(dir, checkpoints === true);
    for (const path of abandoned) rmSync(path, { recursive: true, force: true });
  }
  if (json) {
    printJson(io, { removed: yes === true, paths, bytes: freed, running: live.map(({ dir }) => dir) });
    return;
  }
  for (const { id, dir } of live) print(io, `${id} is running (process ${holderOf(dir)?.pid}) and stays.`);
  if (paths.length === 0) {
    print(io, "Nothing to remove.");
    return;
  }
  print(
    io,
    ...paths,
    `${yes ? "Removed" : "Would remove"} ${paths.length} folders, ${bytes(freed)}.${yes ? "" : " Give --yes to do it."}`,
  );
}

/** Under the run's lock, so that nobody resumes it meanwhile. */
function remove(dir: string, onlyCheckpoints: boolean): void {
  const lock = lockRun(dir, "removed");
  try {
    rmSync(onlyCheckpoints ? pathIn(dir, "checkpoints") : dir, { recursive: true, force: true });
  } finally {
    lock.release();
  }
}
