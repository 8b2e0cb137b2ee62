// Installs and builds what is missing or out of date, so that `npm run demo` and `npm test` work on a fresh clone.
// Uses Node's own modules only: nothing may be installed yet when it runs.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const stampFile = join(root, ".prepared.json");
const force = process.argv.includes("--force");
const stamps = existsSync(stampFile) ? JSON.parse(readFileSync(stampFile, "utf8")) : {};

const steps = [
  {
    name: "install",
    inputs: [
      "package.json",
      "package-lock.json",
      "packages/engine/package.json",
      "packages/stateset-agents/package.json",
      "packages/dashboard/package.json",
    ],
    outputs: ["node_modules/.package-lock.json"],
    // Not `npm ci`: it refuses a lock that leaves out optional packages of platforms the locking registry did not carry.
    // --no-save reads the lock and leaves it as it is.
    command: ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"],
  },
  {
    name: "engine",
    inputs: ["packages/engine/native/src", "packages/engine/native/Cargo.toml", "packages/engine/build.mjs"],
    outputs: ["packages/engine/dist/stateset-engine.node"],
    command: ["node", "packages/engine/build.mjs"],
  },
  {
    name: "engine wrapper",
    inputs: ["packages/engine/src", "packages/engine/tsdown.config.ts"],
    outputs: ["packages/engine/dist/index.mjs", "packages/engine/dist/index.d.mts"],
    command: ["node", join(root, "node_modules/tsdown/dist/run.mjs"), "--logLevel", "error"],
    cwd: "packages/engine",
  },
  {
    name: "stateset-agents",
    inputs: ["packages/stateset-agents/src", "packages/stateset-agents/tsdown.config.ts", "packages/engine/src"],
    outputs: ["packages/stateset-agents/dist/index.mjs", "packages/stateset-agents/dist/index.d.mts"],
    command: ["node", join(root, "node_modules/tsdown/dist/run.mjs"), "--logLevel", "error"],
    cwd: "packages/stateset-agents",
  },
  {
    name: "dashboard",
    inputs: [
      "packages/dashboard/src",
      "packages/dashboard/index.html",
      "packages/dashboard/vite.config.ts",
      "packages/stateset-agents/src/dashboard/api/csv-cell.ts",
      "packages/stateset-agents/src/dashboard/api/first-metric.ts",
      "packages/stateset-agents/src/dashboard/api/packed.ts",
    ],
    outputs: ["packages/dashboard/dist/index.html"],
    command: ["node", join(root, "node_modules/vite/bin/vite.js"), "build", "--logLevel", "error"],
    cwd: "packages/dashboard",
  },
  {
    // After the package's own build, which empties the folder.
    name: "dashboard's page",
    inputs: ["packages/dashboard/dist"],
    outputs: ["packages/stateset-agents/dist/ui/index.html"],
    command: ["node", join(root, "scripts/copy-page.mjs")],
  },
];

for (const step of steps) {
  const stamp = fingerprint(step.inputs);
  const current = stamps[step.name] === stamp && step.outputs.every((file) => existsSync(join(root, file)));
  if (current && !(force && step.name !== "install")) continue;
  // On standard error: the output of the command that follows may be read by a program.
  console.error(`prepare: ${step.name} …`);
  const started = Date.now();
  const [command, ...args] = step.command;
  const done = spawnSync(command, args, {
    cwd: join(root, step.cwd ?? "."),
    stdio: ["ignore", 2, 2],
    shell: process.platform === "win32",
  });
  if (done.status !== 0) {
    console.error(`prepare: "${step.command.join(" ")}" failed in ${step.cwd ?? "the repository root"}.`);
    process.exit(done.status ?? 1);
  }
  stamps[step.name] = fingerprint(step.inputs);
  writeFileSync(stampFile, JSON.stringify(stamps));
  console.error(`prepare: ${step.name} done in ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

function fingerprint(inputs) {
  const hash = createHash("sha256").update(process.version);
  for (const file of inputs.flatMap((input) => filesUnder(join(root, input)))) {
    hash.update(file).update(readFileSync(file));
  }
  return hash.digest("hex");
}

function filesUnder(path) {
  if (!existsSync(path)) return [];
  if (statSync(path).isFile()) return path.endsWith(".test.ts") ? [] : [path];
  return readdirSync(path)
    .sort()
    .flatMap((name) => filesUnder(join(path, name)));
}
