/**
 * Every code block in README.md and docs/ is run. Blocks of one page share a folder and run in order, against the built package:
 *   ts    run with tsx and type-checked;   bash   run with the package's commands on the PATH;   yaml, json   parsed.
 * A block after `<!-- not run: reason -->` is only type-checked. Transcripts and pictures of output use the fence "console".
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";

const root = fileURLToPath(new URL("..", import.meta.url));
// Inside the repository, so that imports of "stateset-agents" resolve to the workspace's built package.
const scratch = join(root, "node_modules", ".cache", "docs-test");

interface Block {
  page: string;
  line: number;
  language: string;
  code: string;
  notRun: string | undefined;
}

const pages = ["README.md", ...markdownUnder("docs")].filter((page) => existsSync(join(root, page)));
const blocks = pages.flatMap(blocksOf);

beforeAll(() => {
  rmSync(scratch, { recursive: true, force: true });
  for (const page of pages) mkdirSync(folderOf(page), { recursive: true });
  // Below node_modules no package.json above counts; without this one the blocks would be CommonJS.
  writeFileSync(join(scratch, "package.json"), '{ "type": "module" }');
});
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe("code blocks in the documentation", () => {
  it("type-check against the built package", () => {
    const folder = join(scratch, "types");
    mkdirSync(folder, { recursive: true });
    for (const [i, block] of blocks.entries()) {
      if (block.language === "ts")
        writeFileSync(join(folder, `${fileName(block)}-${i}.ts`), `${block.code}\nexport {};\n`);
    }
    writeFileSync(
      join(folder, "tsconfig.json"),
      JSON.stringify({
        compilerOptions: {
          target: "ES2023",
          module: "NodeNext",
          moduleResolution: "NodeNext",
          lib: ["ES2023"],
          types: ["node"],
          strict: true,
          noEmit: true,
          skipLibCheck: true,
        },
        include: ["*.ts"],
      }),
    );
    const tsc = spawnSync(join(root, "node_modules", ".bin", "tsc"), ["-p", folder], { encoding: "utf8" });
    expect(tsc.stdout).toBe("");
  }, 120_000);

  describe.each([...new Set(blocks.filter(isChecked).map((block) => block.page))])("%s", (page) => {
    for (const block of blocks.filter((candidate) => candidate.page === page)) {
      const where = `line ${block.line} (${block.language})`;
      if (block.language === "json") {
        it(`${where} parses`, () => expect(() => JSON.parse(block.code)).not.toThrow());
      } else if (block.language === "yaml") {
        it(`${where} parses`, () => expect(parseAllDocuments(block.code).flatMap((doc) => doc.errors)).toEqual([]));
      } else if (isRun(block)) {
        it(`${where} runs`, async () => {
          const { status, output } = await run(block);
          expect(status, output).toBe(0);
        }, 240_000);
      }
    }
  });
});

function isRun(block: Block): boolean {
  return (block.language === "ts" || block.language === "bash") && block.notRun === undefined;
}

function isChecked(block: Block): boolean {
  return isRun(block) || block.language === "json" || block.language === "yaml";
}

function run(block: Block): Promise<{ status: number | null; output: string }> {
  const cwd = folderOf(block.page);
  const bin = join(root, "node_modules", ".bin");
  const file = join(cwd, `${fileName(block)}.ts`);
  if (block.language === "ts") writeFileSync(file, block.code);
  const [command, args] = block.language === "ts" ? [join(bin, "tsx"), [file]] : ["bash", ["-euc", block.code]];
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}`, NO_COLOR: "1", CI: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  child.stdout.on("data", (data) => (output += data));
  child.stderr.on("data", (data) => (output += data));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (status) => resolve({ status, output }));
  });
}

function blocksOf(page: string): Block[] {
  const lines = readFileSync(join(root, page), "utf8").split("\n");
  const found: Block[] = [];
  let notRun: string | undefined;
  for (let i = 0; i < lines.length; i++) {
    const comment = lines[i]!.match(/^<!-- not run: (.+) -->$/);
    if (comment) notRun = comment[1];
    const open = lines[i]!.match(/^```(\w+)/);
    if (!open) continue;
    const start = i + 1;
    while (i + 1 < lines.length && lines[i + 1] !== "```") i++;
    found.push({ page, line: start, language: open[1]!, code: lines.slice(start, i + 1).join("\n"), notRun });
    notRun = undefined;
    i++;
  }
  return found;
}

function markdownUnder(folder: string): string[] {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { withFileTypes: true })
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? markdownUnder(path) : path.endsWith(".md") ? [path] : [];
    })
    .sort();
}

function folderOf(page: string): string {
  return join(scratch, "run", page.replace(/[^\w]+/g, "-"));
}

function fileName(block: Block): string {
  return `${relative(root, join(root, block.page)).replace(/[^\w]+/g, "-")}-line-${block.line}`;
}
