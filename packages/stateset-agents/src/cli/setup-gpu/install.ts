/** The programs that make a Python environment, run so that what they do can be seen and stopped. */
import { spawn, spawnSync } from "node:child_process";
import { StatesetError } from "../../error.ts";
import { duration } from "../../telemetry/format.ts";

export interface Shell {
  env: Readonly<Record<string, string | undefined>>;
  signal: AbortSignal;
  say(line: string): void;
}

/** One way to make an environment and to fill it. */
export interface Installer {
  name: string;
  makeVenv(dir: string): [program: string, ...args: string[]];
  install(python: string, requirements: readonly string[]): [program: string, ...args: string[]];
}

/** uv where it is, since it is faster and can fetch a Python; else what Python itself has. */
export function findInstaller(
  { python, least, indexUrl }: { python: string | undefined; least: string; indexUrl: string | undefined },
  env: Shell["env"],
): Installer {
  const index = indexUrl === undefined ? [] : ["--index-url", indexUrl];
  if (spawnSync("uv", ["--version"], { env: { ...env } }).status === 0) {
    return {
      name: "uv",
      makeVenv: (dir) => ["uv", "venv", "--quiet", "--python", python ?? `>=${least}`, dir],
      install: (own, requirements) => ["uv", "pip", "install", "--python", own, ...index, ...requirements],
    };
  }
  const base = python ?? "python3";
  return {
    name: `${base} -m venv`,
    makeVenv: (dir) => [base, "-m", "venv", dir],
    install: (own, requirements) => [own, "-m", "pip", "install", "--progress-bar", "off", ...index, ...requirements],
  };
}

/** How long a program may say nothing before it is said that it is still at work. */
const quietMs = 20_000;

/** Runs a program to its end; what it prints is told line by line. Rejects with ABORTED when the signal fires. */
export async function runProgram([program, ...args]: readonly [string, ...string[]], shell: Shell): Promise<void> {
  const { env, signal, say } = shell;
  const startedMs = performance.now();
  const lines: string[] = [];
  let spokeMs = startedMs;
  const tell = (line: string) => {
    spokeMs = performance.now();
    say(`  ${line}`);
  };
  const clock = setInterval(() => {
    if (performance.now() - spokeMs >= quietMs) tell(`… ${duration(performance.now() - startedMs)}`);
  }, quietMs);
  try {
    const child = spawn(program, args, { env: { ...env }, stdio: ["ignore", "pipe", "pipe"], signal });
    for (const stream of [child.stdout, child.stderr]) {
      let begun = "";
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        const [...whole] = `${begun}${chunk}`.split(/[\r\n]+/);
        begun = whole.pop()!;
        for (const line of whole.filter((one) => one.trim() !== "").map(withoutPasswords)) {
          lines.push(line);
          tell(line);
        }
      });
    }
    const ended = await new Promise<string | undefined>((resolve) => {
      child.once("error", (error) => resolve(error.message));
      child.once("close", (code) => resolve(code === 0 ? undefined : `exit code ${code}`));
    });
    if (signal.aborted) throw new StatesetError("ABORTED", `${program} was stopped.`);
    if (ended === undefined) return;
    const last = lines.slice(-5).map((line) => `\n  ${line}`);
    const command = withoutPasswords([program, ...args].join(" "));
    throw new StatesetError("ENGINE_UNAVAILABLE", `${command} failed: ${ended}.${last.join("")}`, {
      hint: "What is done is kept: mend it and run the command again. --index-url names another index of packages, --python another Python.",
    });
  } finally {
    clearInterval(clock);
  }
}

/** An index of packages may be one with a password: `https://user:password@host/simple`. */
function withoutPasswords(text: string): string {
  return text.replace(/:\/\/[^/\s]+@/g, "://[hidden]@");
}
