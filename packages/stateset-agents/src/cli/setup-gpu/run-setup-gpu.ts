/** The `setup-gpu` command: an environment of Python with what the torch engine needs, made step by step and tried. */
import { createHash } from "node:crypto";
import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import * as prompts from "@clack/prompts";
import { makeFolders, writeFolderAtomic, writeJsonAtomic } from "../../durable.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { takeLock } from "../../file-lock.ts";
import { packageVersion } from "../../package-version.ts";
import { gpuFolder, workerFolder } from "../../policy/torch/find-python.ts";
import { bytes, duration } from "../../telemetry/format.ts";
import { CliExit } from "../failure.ts";
import { type CliIo, colorsOf, isInteractive, print } from "../io.ts";
import { stopOnInterrupt } from "../run/interruption.ts";
import { commandLine } from "../run/place.ts";
import { findInstaller, runProgram, type Shell } from "./install.ts";
import { type PythonFacts, probePython } from "./probe-python.ts";
import { isAtLeast, type Requirements, workerRequirements } from "./requirements.ts";
import { type SelfTest, selfTest } from "./self-test.ts";

export interface SetupFlags {
  dir?: string;
  python?: string;
  indexUrl?: string;
  yes?: boolean;
  force?: boolean;
  test: boolean;
}

/** What is finished, as setup.json keeps it: a command that is stopped goes on where it was. */
interface Finished {
  venv?: true;
  /** What was asked for. */
  packages?: string;
  /** The digest of the worker's files. */
  worker?: string;
  test?: SelfTest & { on: string };
}

/** Wheels of PyTorch bring CUDA's libraries on Linux, and none elsewhere. */
const sizes = process.platform === "linux" ? { download: 3e9, disk: 7e9 } : { download: 4e8, disk: 1.5e9 };

export async function runSetupGpu(flags: SetupFlags, io: CliIo): Promise<void> {
  const dir = flags.dir === undefined ? gpuFolder(io.env) : resolve(io.cwd, flags.dir);
  const interruption = stopOnInterrupt({ note: (line) => print(io, line) }, io, "Stopping");
  const { signal } = interruption;
  makeFolders(dir);
  const taken = takeLock(join(dir, "lock"));
  try {
    if (!taken || "holder" in taken) {
      const who = taken ? ` (process ${taken.holder.pid})` : "";
      throw new StatesetError("RUN_BUSY", `Another setup-gpu is at work in ${dir}${who}.`, { hint: "Wait for it." });
    }
    await setUp(dir, flags, { env: io.env, signal, say: (line) => print(io, line) }, io);
  } catch (error) {
    if (!signal.aborted) throw error;
    const again = commandLine(["setup-gpu", ...(flags.dir === undefined ? [] : ["--dir", flags.dir])]);
    throw new CliExit(interruption.status(), `Stopped. What is done is kept; go on with: ${again}`, "ABORTED");
  } finally {
    interruption.done();
    if (taken && "lock" in taken) taken.lock.release();
  }
}

async function setUp(dir: string, flags: SetupFlags, shell: Shell, io: CliIo): Promise<void> {
  const needs = workerRequirements();
  const wanted = needs.packages.map(({ name, least }) => `${name}>=${least}`);
  const venv = join(dir, ".venv");
  const python = join(venv, "bin", "python");
  if (flags.force)
    for (const name of [".venv", "setup.json"]) rmSync(join(dir, name), { recursive: true, force: true });
  const finished = readFinished(dir, existsSync(python));
  const finish = (step: Finished) => writeJsonAtomic(join(dir, "setup.json"), Object.assign(finished, step));

  if (finished.packages !== wanted.join(" ")) {
    const installer = findInstaller({ python: flags.python, least: needs.python, indexUrl: flags.indexUrl }, io.env);
    await agree(dir, wanted, installer.name, flags, io);
    if (!finished.venv) {
      if (installer.name !== "uv") await requirePython(flags.python ?? "python3", needs, shell);
      step(io, `Making an environment with ${installer.name}`);
      rmSync(venv, { recursive: true, force: true });
      await runProgram(installer.makeVenv(venv), shell);
      finish({ venv: true });
    }
    step(io, `Installing ${wanted.join(", ")}`);
    await runProgram(installer.install(python, wanted), shell);
    finish({ packages: wanted.join(" ") });
  }
  const facts = await probePython(python, [...needs.packages.map(({ name }) => name), "bitsandbytes"], shell);
  requirePackages(facts, needs, python);
  const worker = digestOf(join(workerFolder(), "stateset_agents_worker"));
  if (finished.worker !== worker) {
    step(io, `Copying the worker, version ${packageVersion()}`);
    await copyWorker(python, shell);
    // Another worker than the one that was tried.
    delete finished.test;
    finish({ worker });
  }
  await tryOut(python, facts, finished, finish, flags, shell, io);
  sayWhatIsThere(dir, python, facts, finished, flags, io);
}

/** Says what will be downloaded, and asks unless that was answered before. */
async function agree(dir: string, wanted: readonly string[], by: string, flags: SetupFlags, io: CliIo): Promise<void> {
  const { bold, dim } = colorsOf(io);
  const size = `about ${bytes(sizes.download)} to download, ${bytes(sizes.disk)} on the disk (far less without CUDA)`;
  const rows = { where: dir, by, packages: wanted.join(", "), size };
  print(io, bold("Python for the torch engine"));
  print(io, ...Object.entries(rows).map(([name, text]) => `  ${dim(name.padEnd(10))}${text}`));
  if (flags.yes) return;
  if (!isInteractive(io)) {
    throw new StatesetError("INVALID_OPTION", "Nobody can be asked whether to download that.", {
      hint: "Give --yes.",
    });
  }
  const answer = await prompts.confirm({ message: "Go on?" });
  if (prompts.isCancel(answer) || !answer) throw new CliExit(130, "Nothing was downloaded.");
}

async function requirePython(python: string, needs: Requirements, shell: Shell): Promise<void> {
  const facts = await probePython(python, [], shell).catch((error: unknown) => {
    throw new StatesetError("ENGINE_UNAVAILABLE", `${python} does not run: ${messageOf(error).split("\n")[0]}.`, {
      hint: `Install Python ${needs.python} or newer, or uv, which brings its own; or name one by --python.`,
    });
  });
  if (isAtLeast(facts.version, needs.python)) return;
  throw new StatesetError("ENGINE_UNAVAILABLE", `${python} is Python ${facts.version}; ${needs.python} is needed.`, {
    hint: "Name a newer one by --python, or install uv, which brings its own.",
  });
}

function requirePackages({ packages, broken }: PythonFacts, needs: Requirements, python: string): void {
  const bad = needs.packages.find(({ name, least }) => !packages[name] || !isAtLeast(packages[name]!, least));
  if (bad === undefined && broken === undefined) return;
  const what = bad ? `${bad.name} is ${packages[bad.name] ?? "not there"}, ${bad.least} is needed` : broken;
  throw new StatesetError("ENGINE_UNAVAILABLE", `The environment of ${python} cannot be used: ${what}.`, {
    hint: "Begin anew: npx stateset-agents setup-gpu --force.",
  });
}

/** So that it can be started by hand there, on other machines too; what this package starts is its own copy. */
async function copyWorker(python: string, shell: Shell): Promise<void> {
  const lines: string[] = [];
  const place = "import sysconfig; print(sysconfig.get_path('purelib'))";
  await runProgram([python, "-c", place], { ...shell, say: (line) => lines.push(line.trim()) });
  const from = join(workerFolder(), "stateset_agents_worker");
  await writeFolderAtomic(join(lines.at(-1)!, "stateset_agents_worker"), async (temporary) =>
    cpSync(from, temporary, { recursive: true, filter: (path) => !path.includes("__pycache__") }),
  );
}

async function tryOut(
  python: string,
  { gpus = [] }: PythonFacts,
  finished: Finished,
  finish: (step: Finished) => void,
  { test }: SetupFlags,
  { signal }: Shell,
  io: CliIo,
): Promise<void> {
  const on = gpus[0]?.name ?? "the processor";
  if (!test || finished.test?.on === on) return;
  step(io, `Trying it on ${on}`);
  const startedMs = performance.now();
  const device = gpus.length > 0 ? "cuda" : "cpu";
  const result = await selfTest({ python, device }, signal);
  finish({ test: { ...result, on } });
  const { sampled, difference, before, after } = result;
  print(
    io,
    `  a reply of ${sampled} tokens; its log-probs at most ${difference.toExponential(1)} away from the embedded engine's`,
    `  after a step towards it their mean rose from ${before.toFixed(3)} to ${after.toFixed(3)}; ${duration(performance.now() - startedMs)}`,
  );
}

function sayWhatIsThere(
  dir: string,
  python: string,
  { version, packages, gpus = [] }: PythonFacts,
  { test }: Finished,
  flags: SetupFlags,
  io: CliIo,
): void {
  const { green, yellow, cyan, dim } = colorsOf(io);
  const there = Object.entries(packages).flatMap(([name, one]) => (one === null ? [] : [`${name} ${one}`]));
  const seen = gpus.map(({ name, totalBytes }) => `${name} (${bytes(totalBytes)})`).join(", ");
  print(
    io,
    "",
    `${green("✓")} All is there: Python ${version}, ${there.join(", ")}, worker ${packageVersion()}, in ${dir}`,
    gpus.length > 0
      ? `  PyTorch sees ${seen}`
      : `  ${yellow("PyTorch sees no GPU here")}: --gpus 0 computes on the processor, slowly. Look at nvidia-smi, or begin anew with an index that has CUDA (--force --index-url).`,
    `  ${test ? `tried on ${test.on}` : dim("not tried (--no-test)")}`,
  );
  if (flags.dir !== undefined) print(io, "", `Where it is to be used: export STATESET_PYTHON=${python}`);
  print(io, "", `Next: ${cyan(`npx stateset-agents train --engine torch --gpus ${gpus.length}`)}`);
}

function step(io: CliIo, text: string): void {
  print(io, `${colorsOf(io).cyan("·")} ${text}`);
}

/** What a file of another kind says, or one of an environment that was removed, is nothing. */
function readFinished(dir: string, hasPython: boolean): Finished {
  try {
    return hasPython ? (JSON.parse(readFileSync(join(dir, "setup.json"), "utf8")) as Finished) : {};
  } catch {
    return {};
  }
}

function digestOf(folder: string): string {
  const hash = createHash("sha256");
  for (const name of readdirSync(folder)
    .filter((one) => one.endsWith(".py"))
    .sort()) {
    hash.update(`${name}\0`).update(readFileSync(join(folder, name)));
  }
  return hash.digest("hex");
}
