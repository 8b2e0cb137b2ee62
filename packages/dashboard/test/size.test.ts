import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build, type Rolldown } from "vite";
import { beforeAll, describe, expect, it } from "vitest";

type Output = Rolldown.RolldownOutput["output"][number];

describe("the built page", () => {
  let files: Map<string, Output>;

  beforeAll(async () => {
    const configFile = fileURLToPath(new URL("../vite.config.ts", import.meta.url));
    const built = (await build({ configFile, logLevel: "silent", build: { write: false } })) as Rolldown.RolldownOutput;
    files = new Map(built.output.map((file) => [file.fileName, file]));
  });

  const content = (file: Output) => (file.type === "chunk" ? file.code : file.source);

  /** What is there before a view of its own is gone to: the page, its style, the table of runs. */
  function firstLoad(): Set<string> {
    const wanted = new Set<string>();
    const add = (name: string) => {
      const file = files.get(name);
      if (!file || wanted.has(name)) return;
      wanted.add(name);
      if (file.type === "chunk") for (const other of file.imports) add(other);
      // The page names its style.
      if (name.endsWith(".html"))
        for (const other of files.keys()) if (String(content(file)).includes(other)) add(other);
    };
    for (const [name, file] of files) {
      const first = file.type === "chunk" && (file.isEntry || file.facadeModuleId?.includes("/view/runs/"));
      if (first || name.endsWith(".html")) add(name);
    }
    return wanted;
  }

  it("loads at most 120 kB compressed before it shows runs", () => {
    const names = [...firstLoad()];
    expect(names.some((name) => name.includes("runs"))).toBe(true);
    expect(names.some((name) => name.endsWith(".css"))).toBe(true);
    const bytes = names.reduce((sum, name) => sum + gzipSync(content(files.get(name)!)).length, 0);
    expect(bytes).toBeLessThan(120_000);
  });

  it("asks nobody else for anything, and has no code or style in its markup", () => {
    const addresses = [...files.values()].flatMap((file) => String(content(file)).match(/\bhttps?:\/\/[\w.-]+/g) ?? []);
    // The namespace of SVG is a name and not an address.
    expect(new Set(addresses.filter((address) => address !== "http://www.w3.org"))).toEqual(new Set());
    const html = String(content(files.get("index.html")!));
    expect(html).not.toMatch(/<style|\sstyle=|<script(?![^>]*\ssrc=)/);
  });
});
