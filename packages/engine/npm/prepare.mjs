// Makes the prebuilt package of this machine from its template and the local build, and prints its folder.
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const glibc = process.platform === "linux" && process.report.getReport().header.glibcVersionRuntime !== undefined;
const libc = process.platform === "linux" ? (glibc ? "-gnu" : "-musl") : "";
const name = `${process.platform}-${process.arch}${libc}`;
const template = join(here, name, "package.json");
const library = join(here, "..", "dist", "stateset-engine.node");
if (!existsSync(template)) fail(`There is no package template for ${name}; add npm/${name}/package.json.`);
if (!existsSync(library)) fail(`${library} does not exist: run "npm run build" first.`);

const { version } = JSON.parse(readFileSync(join(here, "..", "package.json"), "utf8"));
const manifest = { ...JSON.parse(readFileSync(template, "utf8")), version };
const out = join(here, "..", "dist", "npm", name);
mkdirSync(out, { recursive: true });
writeFileSync(join(out, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
copyFileSync(library, join(out, manifest.main));
console.log(out);

function fail(message) {
  console.error(message);
  process.exit(1);
}
