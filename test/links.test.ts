/** Every relative link and every anchor in the repository's Markdown leads somewhere. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const listed = spawnSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"], { cwd: root });
const pages = String(listed.stdout)
  .split("\n")
  .filter((page) => page !== "" && existsSync(join(root, page)));

/** The text with code left out, where brackets mean something else; lines stay where they are. */
function prose(page: string): string[] {
  let fenced = false;
  return readFileSync(join(root, page), "utf8")
    .split("\n")
    .map((line) => {
      const fence = /^\s*```/.test(line);
      if (fence) fenced = !fenced;
      return fence || fenced ? "" : line;
    });
}

/** The anchors of a page's headings, made as GitHub makes them. */
function anchorsOf(page: string): Set<string> {
  const seen = new Map<string, number>();
  const anchors = new Set<string>();
  for (const line of prose(page)) {
    const title = /^#{1,6} +(.+?) *$/.exec(line)?.[1];
    if (title === undefined) continue;
    const slug = title
      .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replace(/\s/g, "-");
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    anchors.add(count === 0 ? slug : `${slug}-${count}`);
  }
  return anchors;
}

function* linksOf(page: string): Generator<{ line: number; target: string }> {
  for (const [i, line] of prose(page).entries()) {
    const text = line.replace(/`[^`]*`/g, (code) => "`".repeat(code.length));
    for (const [, target] of text.matchAll(/\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)/g))
      yield { line: i + 1, target: target! };
    for (const [, target] of text.matchAll(/\b(?:src|href)="([^"]+)"/g)) yield { line: i + 1, target: target! };
  }
}

it("finds the pages", () => {
  expect(pages).toContain("README.md");
  expect(pages.length).toBeGreaterThan(20);
});

it("lists every page of the documentation in its index", () => {
  const index = "docs/README.md";
  const linked = new Set([...linksOf(index)].map(({ target }) => join(dirname(index), target.split("#")[0]!)));
  const documentation = pages.filter((page) => page.startsWith("docs/") && page !== index);
  expect(documentation.length).toBeGreaterThan(20);
  expect(documentation.filter((page) => !linked.has(page))).toEqual([]);
});

it.each(pages)("%s links to what is there", (page) => {
  const broken = [...linksOf(page)].flatMap(({ line, target }) => {
    if (/^[a-z][a-z+.-]*:/i.test(target)) return [];
    const [path = "", anchor] = target.split("#");
    const file = path === "" ? join(root, page) : resolve(root, dirname(page), decodeURIComponent(path));
    const at = `${page}:${line} → ${target}`;
    if (!existsSync(file)) return [at];
    if (anchor === undefined) return [];
    return file.endsWith(".md") && anchorsOf(relative(root, file)).has(anchor) ? [] : [`${at} (no such heading)`];
  });
  expect(broken).toEqual([]);
});
