/** Where a new project gets this package from: what `npm install` finds today, whether or not anything was published. */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";

const ownName = "stateset-agents";
const isOwn = (name: string) => name === ownName || name.startsWith(`@${ownName}/`);
/** Of one platform each: they must not keep a project from being installed elsewhere. */
const isPrebuilt = (name: string) => name.startsWith(`@${ownName}/engine-`);

export interface PackageSource {
  dependencies: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  /** What is to be known of it, in words; undefined where it is a version on npm. */
  note?: string;
}

/**
 * A copy that npm took from a registry is named by its version; one that it took from tarballs, by those; any other, such as a clone, by its
 * folder. `root` is this package's folder.
 */
export function packageSource(projectDir: string, root: string): PackageSource {
  const installed = installedIn(dirname(root));
  const own = installed?.get(ownName);
  const pathTo = (file: string) => `file:${shortPath(projectDir, file)}`;
  if (own === undefined || own.link) {
    return {
      dependencies: { [ownName]: pathTo(root) },
      note: `stateset-agents is not from npm: package.json names the copy that made this project, in ${root}. npm install links it, so it must stay there.`,
    };
  }
  if (own.tarball === undefined) return { dependencies: { [ownName]: `^${versionOf(root)}` } };
  const tarballs = [...installed!].filter(([name, { tarball }]) => isOwn(name) && tarball !== undefined);
  const missing = tarballs.find(([, { tarball }]) => !existsSync(tarball!));
  if (missing) {
    return {
      dependencies: { [ownName]: pathTo(root) },
      note: `stateset-agents is not from npm, and the tarballs it was installed from are gone: package.json names the installed copy, in ${root}. npm install links it, so it must stay there.`,
    };
  }
  const named = (wanted: (name: string) => boolean) =>
    Object.fromEntries(
      tarballs.filter(([name]) => wanted(name)).map(([name, { tarball }]) => [name, pathTo(tarball!)]),
    );
  return {
    dependencies: named((name) => !isPrebuilt(name)),
    optionalDependencies: named(isPrebuilt),
    note: `stateset-agents is not from npm: package.json names the tarballs it was installed from, in ${dirname(own.tarball)}. They must stay there.`,
  };
}

interface Installed {
  link: boolean;
  /** Undefined: from a registry. */
  tarball: string | undefined;
}

/** What npm says it has put into a node_modules folder, by name; undefined where it has not. */
function installedIn(folder: string): Map<string, Installed> | undefined {
  const list = join(folder, ".package-lock.json");
  if (basename(folder) !== "node_modules" || !existsSync(list)) return undefined;
  const { packages = {} } = JSON.parse(readFileSync(list, "utf8")) as {
    packages?: Record<string, { resolved?: string; link?: boolean }>;
  };
  return new Map(
    Object.entries(packages).map(([path, { resolved = "", link = false }]) => {
      const tarball = resolved.startsWith("file:")
        ? resolve(dirname(folder), resolved.slice("file:".length))
        : undefined;
      return [path.replace(/^node_modules\//, ""), { link, tarball }];
    }),
  );
}

/** As npm writes it: relative to the project, with slashes. */
function shortPath(projectDir: string, file: string): string {
  const path = relative(realPath(projectDir), realpathSync(file));
  return (isAbsolute(path) ? path : path.startsWith("..") ? path : `./${path}`).split(sep).join("/");
}

/** Of a folder that may not be there yet. */
function realPath(dir: string): string {
  return existsSync(dir) ? realpathSync(dir) : join(realPath(dirname(dir)), basename(dir));
}

function versionOf(root: string): string {
  return (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string }).version;
}
