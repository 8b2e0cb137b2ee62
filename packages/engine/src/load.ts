import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { EngineError } from "./error.ts";
import type { NativeEngine } from "./native.ts";
import { platformPackage } from "./platform.ts";

const require = createRequire(import.meta.url);
/** Where build.mjs puts the library; the same place seen from src/ and from dist/. */
const localBuild = fileURLToPath(new URL("../dist/stateset-engine.node", import.meta.url));

let loaded: NativeEngine | undefined;

/**
 * The native engine: a build made here first (someone who builds means to use it), then the prebuilt package of this platform.
 * `STATESET_ENGINE` names another file, for trying one out.
 */
export function loadNative(): NativeEngine {
  loaded ??= load(process.env.STATESET_ENGINE, localBuild, platformPackage());
  return loaded;
}

export function load(forced: string | undefined, local: string, prebuilt: string): NativeEngine {
  if (forced) return open(forced, `${forced} (from STATESET_ENGINE)`);
  if (existsSync(local)) return open(local, `the local build ${local}`);
  let path: string;
  try {
    path = require.resolve(prebuilt);
  } catch (cause) {
    throw new EngineError(
      "ENGINE_UNAVAILABLE",
      `The embedded engine for this machine is not installed: the package ${prebuilt} is missing and there is no local build. ` +
        `Install it with "npm install ${prebuilt}", or, where no such package exists, install Rust (https://rustup.rs) and run ` +
        `"npm run build" in packages/engine of the stateset-agents repository.`,
      { cause },
    );
  }
  return open(path, `the package ${prebuilt}`);
}

function open(path: string, what: string): NativeEngine {
  try {
    return require(path) as NativeEngine;
  } catch (cause) {
    throw new EngineError(
      "ENGINE_UNAVAILABLE",
      `The embedded engine could not be loaded from ${what}: ${cause instanceof Error ? cause.message : String(cause)}. ` +
        `Reinstall ${platformPackage()}, or rebuild it with "npm run build" in packages/engine.`,
      { cause },
    );
  }
}
