// Packs every package that is published, the engine's prebuilt package for this machine included, into a folder of tarballs.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { copyPages } from "./package-pages.mjs";
import { copyWorker } from "./package-worker.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const target = resolve(process.argv[2] ?? join(root, "tarballs"));
mkdirSync(target, { recursive: true });

copyPages(root, join(root, "packages/stateset-agents"));
const removeWorker = copyWorker(root, join(root, "packages/stateset-agents"));

const platformPackage = execFileSync("node", [join(root, "packages/engine/npm/prepare.mjs")], {
  encoding: "utf8",
}).trim();
const folders = [
  "packages/starter-model",
  "packages/engine/dist/npm/engine",
  platformPackage,
  "packages/stateset-agents",
];
const page = join(root, "packages/stateset-agents/dist/ui/index.html");
if (!existsSync(page)) throw new Error(`${page} does not exist: run "npm run build" first.`);
try {
  for (const folder of folders) {
    const path = resolve(root, folder);
    if (!existsSync(path)) throw new Error(`${path} does not exist: run "npm run build" first.`);
    const name = execFileSync("npm", ["pack", path, "--pack-destination", target, "--silent", "--ignore-scripts"], {
      encoding: "utf8",
    });
    console.log(name.trim());
  }
} finally {
  removeWorker();
}
