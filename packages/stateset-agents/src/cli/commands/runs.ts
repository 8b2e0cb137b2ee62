import { rmSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { Argument, type Command } from "commander";
import { trackerNamed, trackerNames } from "../../project/names.ts";
import { bytes, number, sparkline, table } from "../../telemetry/format.ts";
import { differences } from "../../telemetry/settings.ts";
import { type CliIo, colorsOf, print, printJson } from "../io.ts";
import { modelLabel } from "../model-label.ts";
import { findRun, listRuns, type RunInfo, sizeOf } from "../runs.ts";
import { wholeNumber } from "../values.ts";

interface Common {
  dir: string;
  json?: boolean;
}

export function addRuns(program: Command, io: CliIo): void {
  const runs = program.command("runs").description("Look at past runs: list, show, compare, export, clean up.");
  const add = (name: string, description: string) =>
    runs
      .command(name)
      .description(description)
      .option("--dir <folder>", "the folder that holds the runs", "runs")
      .option("--json", "print JSON");
  const at = (options: Common) => resolve(io.cwd, options.dir);

  add("list", "List runs, the newest first.").action((options: Common) => list(io, listRuns(at(options)), options));
  add("show", "Show one run: its settings, its curve, its files.")
    .argument("<run>", 'a run\'s name or folder, or "last"')
    .action((name: string, options: Common) => show(io, findRun(at(options), name, io.cwd), options));
  add("diff", "Show where the settings and the results of two runs differ.")
    .argument("<a>", "a run")
    .argument("<b>", "another run")
    .action((a: string, b: string, options: Common) =>
      diff(io, findRun(at(options), a, io.cwd), findRun(at(options), b, io.cwd), options),
    );
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
      prune(io, listRuns(at(options)), options),
    );
}

function summary(run: RunInfo) {
  const { id, dir, status, steps, config, bytes: size, metrics } = run;
  return {
    id,
    dir,
    status,
    steps,
    totalSteps: config.training.steps,
    algorithm: config.algorithm.algorithm,
    model: config.model.name,
    reward: metrics.at(-1)?.reward ?? null,
    bytes: size,
  };
}

function list(io: CliIo, runs: readonly RunInfo[], { json }: Common): void {
  const colors = colorsOf(io);
  if (json) {
    printJson(io, runs.map(summary));
    return;
  }
  if (runs.length === 0) {
    print(io, "No runs yet. Train one with `stateset-agents train`.");
    return;
  }
  const rows = runs.map((run) => {
    const { id, status, steps, totalSteps, algorithm, reward, bytes: size } = summary(run);
    const curve = sparkline(
      run.metrics.map((record) => record.reward ?? Number.NaN),
      16,
    );
    const mark = status === "finished" ? colors.green("✓") : colors.yellow("…");
    return [
      `${mark} ${id}`,
      String(algorithm),
      `${steps}/${totalSteps}`,
      reward === null ? "–" : number(reward),
      colors.cyan(curve),
      bytes(size),
    ];
  });
  print(io, ...table(["  run", "algorithm", "steps", "reward", "curve", "size"], rows, colors.dim));
}

function show(io: CliIo, run: RunInfo, { json }: Common): void {
  const colors = colorsOf(io);
  const last = run.metrics.at(-1);
  if (json) {
    printJson(io, {
      ...summary(run),
      config: run.config,
      last: last ?? null,
      checkpoints: run.checkpoints,
      best: run.best ?? null,
    });
    return;
  }
  const { model, algorithm, training } = run.config;
  print(io, `${colors.bold(run.id)}  ${run.status}, ${run.steps} of ${training.steps} steps`, colors.dim(run.dir), "");
  print(
    io,
    `model      ${modelLabel(model.name)}`,
    `algorithm  ${String(algorithm.algorithm)}, ${training.profile} profile, seed ${training.seed}`,
  );
  const rewards = run.metrics.map((record) => record.reward).filter((reward) => reward !== undefined);
  if (rewards.length > 0) {
    print(io, `reward     ${number(rewards[0]!)} → ${number(rewards.at(-1)!)}  ${colors.cyan(sparkline(rewards, 40))}`);
  }
  if (last) {
    const shown = ["rewardStd", "kl", "referenceKl", "entropy", "clipFraction", "gradNorm", "replyTokens"].filter(
      (name) => last[name] !== undefined,
    );
    print(io, `last step  ${shown.map((name) => `${name} ${number(last[name]!)}`).join(", ")}`);
  }
  print(
    io,
    "",
    `checkpoints (${run.checkpoints.length}, ${bytes(run.checkpoints.reduce((sum, dir) => sum + sizeOf(dir), 0))})`,
  );
  for (const dir of run.checkpoints) print(io, `  ${basename(dir)}${dir === run.best ? colors.green("  best") : ""}`);
  const next = run.status === "finished" ? `chat --checkpoint ${join(run.dir, "final")}` : `train --resume ${run.dir}`;
  print(io, "", colors.dim(`next: stateset-agents ${next}`));
}

function diff(io: CliIo, a: RunInfo, b: RunInfo, { json }: Common): void {
  const settings = differences(settingsOf(a), settingsOf(b));
  const ends = { a: a.metrics.at(-1)?.reward ?? null, b: b.metrics.at(-1)?.reward ?? null };
  if (json) {
    printJson(io, { a: a.id, b: b.id, settings, reward: ends });
    return;
  }
  const text = (value: unknown) =>
    value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value);
  const rows = settings.map(({ path, a: left, b: right }) => [path, text(left), text(right)]);
  if (rows.length === 0) print(io, "The settings are the same.");
  else print(io, ...table(["setting", a.id, b.id], rows, colorsOf(io).dim));
  print(io, "", `last reward  ${ends.a === null ? "–" : number(ends.a)}  ${ends.b === null ? "–" : number(ends.b)}`);
}

function settingsOf({ config }: RunInfo): Record<string, unknown> {
  return { model: modelLabel(config.model.name), algorithm: config.algorithm, ...config.training };
}

async function exportRun(io: CliIo, run: RunInfo, tool: string, { json }: Common): Promise<void> {
  const tracker = trackerNamed(tool, "runs export");
  await tracker.start({ id: run.id, dir: run.dir, config: { ...settingsOf(run) } });
  for (const { step, ...metrics } of run.metrics) await tracker.log(step, metrics);
  await tracker.finish({ status: run.status === "finished" ? "finished" : "interrupted", steps: run.steps });
  const folder = join(run.dir, tool);
  if (json) return printJson(io, { run: run.id, tool, folder, steps: run.metrics.length });
  const next = tool === "wandb" ? `wandb sync ${folder}/offline-run-*` : `tensorboard --logdir ${folder}`;
  print(io, `Wrote ${run.metrics.length} steps to ${folder}.`, colorsOf(io).dim(`next: ${next}`));
}

function prune(
  io: CliIo,
  runs: readonly RunInfo[],
  { keep, checkpoints, yes, json }: Common & { keep?: number; checkpoints?: boolean; yes?: boolean },
): void {
  const paths = checkpoints
    ? runs
        .filter((run) => run.status === "finished" && run.checkpoints.length > 0)
        .map((run) => join(run.dir, "checkpoints"))
    : runs.slice(keep ?? 10).map((run) => run.dir);
  const freed = paths.reduce((sum, path) => sum + sizeOf(path), 0);
  if (yes) for (const path of paths) rmSync(path, { recursive: true, force: true });
  if (json) {
    printJson(io, { removed: yes === true, paths, bytes: freed });
    return;
  }
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
