import { readFileSync } from "node:fs";
import { findPackageRoot } from "./package-root.ts";

/** The version of this package. */
export function packageVersion(): string {
  const { version } = JSON.parse(readFileSync(`${findPackageRoot()}/package.json`, "utf8")) as { version: string };
  return version;
}
