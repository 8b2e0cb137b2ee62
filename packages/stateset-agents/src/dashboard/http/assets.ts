/** The files of the built page, read into a table: what is not in it is not served, whatever an address spells. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { extname, join } from "node:path";
import { findPackageRoot } from "../../package-root.ts";
import { compressed, type Encoding } from "./answer.ts";

export interface Asset {
  type: string;
  /** As it is, or packed; packed once, whoever asks. */
  bytes(encoding: Encoding | undefined): Promise<Uint8Array<ArrayBuffer>>;
}

export interface Assets {
  /** Undefined while the page is not built. */
  page(): Asset | undefined;
  /** A file of assets/ by its name, which holds a hash of its content. */
  file(name: string): Asset | undefined;
}

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
};

/** Beside the bundle; from source where Vite puts it. */
export function builtPage(): string {
  const root = findPackageRoot();
  return import.meta.url.endsWith(".ts") ? join(root, "..", "dashboard", "dist") : join(root, "dist", "ui");
}

export function openAssets(folder = builtPage()): Assets {
  let read: { state: string; page: Asset; files: ReadonlyMap<string, Asset> } | undefined;
  /** Read again when the page was built anew. */
  const look = () => {
    const index = join(folder, "index.html");
    const stat = statSync(index, { throwIfNoEntry: false });
    if (!stat) return undefined;
    const state = `${stat.mtimeMs} ${stat.size}`;
    if (read?.state !== state) read = { state, page: assetOf(index), files: filesIn(join(folder, "assets")) };
    return read;
  };
  look();
  return {
    page: () => look()?.page,
    file: (name) => (read ?? look())?.files.get(name),
  };
}

function filesIn(folder: string): Map<string, Asset> {
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => extname(name) in types) : [];
  return new Map(names.map((name) => [name, assetOf(join(folder, name))]));
}

function assetOf(path: string): Asset {
  const plain = new Uint8Array(readFileSync(path));
  const known = new Map<Encoding, Promise<Uint8Array<ArrayBuffer>>>();
  // Packed as small as it goes when the page was built.
  if (existsSync(`${path}.br`)) known.set("br", Promise.resolve(new Uint8Array(readFileSync(`${path}.br`))));
  return {
    type: types[extname(path)]!,
    async bytes(encoding) {
      if (encoding === undefined) return plain;
      const packed = known.get(encoding) ?? compressed(plain, encoding);
      known.set(encoding, packed);
      return packed;
    },
  };
}
