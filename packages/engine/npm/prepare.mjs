// Makes what is published, under dist/npm: the prebuilt package of this machine (from its template and the local build), and the
// engine package with all platform packages as optional dependencies. They are added only here: a repository that names packages
// which are not published yet could not be installed with `npm ci`. Prints the folder of the prebuilt package.
import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const engine = fileURLToPath(new URL("..", import.meta.url));
const templates = readdirSync(join(engine, "npm"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
const glibc = process.platform === "linux" && process.report.getReport().header.glibcVersionRuntime !== undefined;
const libc = process.platform === "linux" ? (glibc ? "-gnu" : "-musl") : "";
const here = `${process.platform}-${process.arch}${libc}`;
const library = join(engine, "dist", "stateset-engine.node");
if (!templates.some(({ name }) => name === here)) fail(`There is no template npm/${here}/package.json; add one.`);
if (!existsSync(library)) fail(`${library} does not exist: run "npm run build" first.`);

const manifest = readJson(join(engine, "package.json"));
const platform = stage(here, { ...readJson(join(engine, "npm", here, "package.json")), version: manifest.version });
copyFileSync(library, join(platform, "stateset-engine.node"));

const names = templates.map(({ name }) => readJson(join(engine, "npm", name, "package.json")).name).sort();
const optionalDependencies = Object.fromEntries(names.map((name) => [name, manifest.version]));
const published = stage("engine", { ...manifest, optionalDependencies });
for (const file of manifest.files) {
  mkdirSync(dirname(join(published, file)), { recursive: true });
  cpSync(join(engine, file), join(published, file), { recursive: true });
}
console.log(platform);

function stage(name, content) {
  const folder = join(engine, "dist", "npm", name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(content, null, 2)}\n`);
  return folder;
}

function readJson(file) {
  return JSON.parse(readFileSync(file, "utf8"));
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
