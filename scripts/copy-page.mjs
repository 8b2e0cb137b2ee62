// The dashboard's built page into the package that serves it, each text beside itself as small as it goes.
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync } from "node:zlib";

const at = (path) => fileURLToPath(new URL(`../packages/${path}`, import.meta.url));
const page = at("stateset-agents/dist/ui");
rmSync(page, { recursive: true, force: true });
cpSync(at("dashboard/dist"), page, { recursive: true });
for (const name of readdirSync(page, { recursive: true })) {
  if (!/\.(?:html|js|css|svg)$/.test(name)) continue;
  writeFileSync(join(page, `${name}.br`), brotliCompressSync(readFileSync(join(page, name))));
}
