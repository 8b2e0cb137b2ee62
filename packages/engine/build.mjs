// Compiles the engine with plain cargo (no crates, so no network) and puts the library where the loader looks for it.
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const manifest = join(here, "native", "Cargo.toml");

const cargo = spawnSync("cargo", ["build", "--release", "--offline", "--manifest-path", manifest], {
  stdio: "inherit",
});
if (cargo.error?.code === "ENOENT") {
  console.error(
    "The engine is written in Rust, and cargo was not found.\n" +
      "Install Rust 1.85 or newer from https://rustup.rs (or your system's packages), then run this again.",
  );
  process.exit(1);
}
if (cargo.status !== 0) process.exit(cargo.status ?? 1);

const library =
  {
    darwin: "libstateset_engine.dylib",
    win32: "stateset_engine.dll",
  }[process.platform] ?? "libstateset_engine.so";
const built = join(process.env.CARGO_TARGET_DIR ?? join(here, "native", "target"), "release", library);
const target = join(here, "dist", "stateset-engine.node");
mkdirSync(join(here, "dist"), { recursive: true });
// Renamed into place: overwriting a library that a running process has mapped would crash it.
const temporary = `${target}.${process.pid}`;
copyFileSync(built, temporary);
renameSync(temporary, target);
