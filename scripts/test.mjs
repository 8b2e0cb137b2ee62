// `npm test`: the engine's Rust tests, then the TypeScript tests. Arguments go to vitest: `npm test -- conversation`.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const only = process.argv.slice(2);

if (!process.env.STATESET_PYTHON) {
  console.log(
    "STATESET_PYTHON is not set: tests that compare with PyTorch, transformers, peft and tensorboard are skipped.",
  );
}
// Where packages/dashboard/test/support/chromium.ts looks for it.
const browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
if (!process.env.STATESET_CHROMIUM && !browsers.some((path) => existsSync(path))) {
  console.log("STATESET_CHROMIUM is not set and no Chromium was found: the tests of the dashboard's page are skipped.");
}
if (only.length === 0)
  run("cargo", ["test", "--release", "--offline", "--quiet", "--manifest-path", "packages/engine/native/Cargo.toml"]);
run("npx", ["vitest", "run", ...only]);

function run(command, args) {
  const { status } = spawnSync(command, args, { cwd: root, stdio: "inherit", shell: process.platform === "win32" });
  if (status !== 0) process.exit(status ?? 1);
}
