/**
 * `node benchmarks/bundle.mjs ENTRY.ts [NAME]`: one file that runs with plain Node on a machine that has neither node_modules nor tsx.
 * Writes .fleet/NAME.mjs, and beside it what it looks for at run time: the engine and the starter model. The whole of .fleet/ travels.
 * NAME is by default the entry's folder: benchmarks/proof/main.ts becomes .fleet/proof.mjs.
 */
import { copyFileSync, cpSync, mkdirSync, rmSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
const [entry, name = entry && basename(dirname(resolve(entry)))] = process.argv.slice(2);
if (!entry) {
  console.error("Usage: node benchmarks/bundle.mjs ENTRY.ts [NAME]");
  process.exit(2);
}
const fleet = join(root, ".fleet");
const outfile = join(fleet, `${name}.mjs`);
mkdirSync(fleet, { recursive: true });
await build({
  entryPoints: [resolve(entry)],
  outfile,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  tsconfig: join(root, "tsconfig.json"),
  logLevel: "warning",
  // Bundled CommonJS modules call require(); the engine is opened from beside the bundle.
  banner: {
    js: [
      'import { createRequire as __createRequire } from "node:module";',
      "const require = __createRequire(import.meta.url);",
      'process.env.STATESET_ENGINE ??= require("node:path").join(import.meta.dirname, "stateset-engine.node");',
    ].join("\n"),
  },
});
// Removed first: writing into a library that a running benchmark has loaded would crash it.
rmSync(join(fleet, "stateset-engine.node"), { force: true });
copyFileSync(join(root, "packages/engine/dist/stateset-engine.node"), join(fleet, "stateset-engine.node"));
// The starter model's package looks for ./model beside its own file, which is now the bundle.
cpSync(join(root, "packages/starter-model/model"), join(fleet, "model"), { recursive: true });
console.log(outfile);
