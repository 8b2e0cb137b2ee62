// `npm test`: the engine's Rust tests, then the TypeScript tests. Arguments go to vitest: `npm test -- conversation`.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const only = process.argv.slice(2);

if (!process.env.STATESET_PYTHON) {
  console.log(
    "STATESET_PYTHON is not set: tests that compare with PyTorch, transformers, peft and tensorboard are skipped.",
  );
}
if (only.length === 0)
  run("cargo", ["test", "--release", "--offline", "--quiet", "--manifest-path", "packages/engine/native/Cargo.toml"]);
run("npx", ["vitest", "run", ...only]);

function run(command, args) {
  const { status } = spawnSync(command, args, { cwd: root, stdio: "inherit", shell: process.platform === "win32" });
  if (status !== 0) process.exit(status ?? 1);
}
