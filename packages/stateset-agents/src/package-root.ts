import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** This package's folder, whether its code runs from src/ or, bundled, from dist/. */
export function findPackageRoot(): string {
  let dir = dirname(fileURLToPath(import.meta.url));
  for (;;) {
    const file = join(dir, "package.json");
    if (existsSync(file) && (JSON.parse(readFileSync(file, "utf8")) as { name?: string }).name === "stateset-agents")
      return dir;
    const above = dirname(dir);
    if (above === dir) throw new Error("The package.json of stateset-agents is missing from its installation.");
    dir = above;
  }
}
