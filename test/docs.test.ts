/**
 * Every code block in README.md and docs/ is run. Blocks of one page share a folder and run in order, against the built package:
 *   ts    run with tsx and type-checked;   bash   run with the package's commands on the PATH;   yaml, json   parsed.
 * Those in TypeScript that follow each other share a process as well, since starting one takes longer than most blocks.
 * A block after `<!-- not run: reason -->` is only type-checked. Transcripts and pictures of output use the fence "console".
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
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
// test/pack.test.ts runs it, from the packed package; here it is type-checked.
const readmeExample = blocks.find(({ page, language }) => page === "README.md" && language === "ts");

beforeAll(() => {
  rmSync(scratch, { recursive: true, force: true });
  for (const page of pages) mkdirSync(folderOf(page), { recursive: true });
  // Below node_modules no package.json above counts; without this one the blocks would be CommonJS.
  writeFileSync(join(scratch, "package.json"), '{ "type": "module" }');
});
const running = new Set<ChildProcess>();
afterAll(() => {
  // Of a test that ran out of time.
  for (const child of running) child.kill("SIGKILL");
  rmSync(scratch, { recursive: true, force: true });
});

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
    const own = blocks.filter((candidate) => candidate.page === page);
    let outcomes: Map<Block, Promise<Problem>>;
    beforeAll(() => {
      outcomes = runPage(own.filter(isRun));
    });
    for (const block of own) {
      const where = `line ${block.line} (${block.language})`;
      if (block.language === "json") {
        it(`${where} parses`, () => expect(() => JSON.parse(block.code)).not.toThrow());
      } else if (block.language === "yaml") {
        it(`${where} parses`, () => expect(parseAllDocuments(block.code).flatMap((doc) => doc.errors)).toEqual([]));
      } else if (isRun(block)) {
        it(`${where} runs`, async () => {
          const problem = await outcomes.get(block);
          if (problem !== undefined) throw new Error(problem);
        }, 240_000);
      }
    }
  });
});

function isRun(block: Block): boolean {
  if (block === readmeExample) return false;
  return (block.language === "ts" || block.language === "bash") && block.notRun === undefined;
}

function isChecked(block: Block): boolean {
  return isRun(block) || block.language === "json" || block.language === "yaml";
}

/** What went wrong in a block. */
type Problem = string | undefined;

/** What came of each block. Blocks run one after another, whatever became of those before. */
function runPage(own: readonly Block[]): Map<Block, Promise<Problem>> {
  const outcomes = new Map<Block, Promise<Problem>>();
  let before: Promise<unknown> = Promise.resolve();
  for (let i = 0; i < own.length; ) {
    let end = i + 1;
    if (own[i]!.language === "ts") while (own[end]?.language === "ts") end++;
    const together = own.slice(i, end);
    const start = together[0]!.language === "ts" ? runModules : runShell;
    const started = before.then(() => start(together));
    for (const [k, block] of together.entries())
      outcomes.set(
        block,
        started.then((results) => results[k]!),
      );
    before = started.then((results) => Promise.all(results));
    i = end;
  }
  return outcomes;
}

async function runShell([block]: readonly Block[]): Promise<Promise<Problem>[]> {
  const { child, output } = start("bash", ["-euc", block!.code], block!.page);
  const status = await closed(child);
  return [Promise.resolve(status === 0 ? undefined : `${place(block!)} ended with ${status}:\n${output()}`)];
}

/** One process imports the blocks in order and tells of each. It must end by itself: an agent or server left open is the last block's fault. */
async function runModules(own: readonly Block[]): Promise<Promise<Problem>[]> {
  const folder = folderOf(own[0]!.page);
  const files = own.map((block) => join(folder, `${fileName(block)}.ts`));
  for (const [i, block] of own.entries()) writeFileSync(files[i]!, block.code);
  const runner = join(folder, "run-blocks.mjs");
  writeFileSync(
    runner,
    `for (const file of process.argv.slice(2)) {
  const problem = await import(file).then(() => undefined, (error) => error?.stack ?? String(error));
  await new Promise((sent) => process.send({ problem }, sent));
}
process.disconnect();
`,
  );
  const urls = files.map((file) => pathToFileURL(file).href);
  const { child, output } = start(process.execPath, ["--import", "tsx", runner, ...urls], own[0]!.page, "ipc");
  const told: ((problem: Problem) => void)[] = [];
  const telling = own.map(() => new Promise<Problem>((resolve) => told.push(resolve)));
  let finished = 0;
  child.on("message", ({ problem }: { problem?: string }) => told[finished++]?.(problem));
  const ending = closed(child);
  // Those that nothing was told of were under way, or yet to come, when it ended.
  void ending.then((status) => {
    for (const tell of told.slice(finished)) tell(`The process ended with ${status}.`);
  });
  return own.map(async (block, i) => {
    const problem = await telling[i];
    const status = i === own.length - 1 ? await ending : 0;
    const wrong = problem ?? (status === 0 ? undefined : `After it the process ended with ${status}.`);
    return wrong && `${place(block)}: ${wrong}\n${output()}`;
  });
}

function start(command: string, args: readonly string[], page: string, channel: "ipc" | "ignore" = "ignore") {
  const bin = join(root, "node_modules", ".bin");
  const child = spawn(command, args, {
    cwd: folderOf(page),
    env: { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}`, NO_COLOR: "1", CI: "1" },
    stdio: ["ignore", "pipe", "pipe", channel],
  });
  running.add(child);
  child.on("close", () => running.delete(child));
  let output = "";
  child.stdout!.on("data", (data) => (output += data));
  child.stderr!.on("data", (data) => (output += data));
  return { child, output: () => output };
}

function closed(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
}

function place({ page, line }: Block): string {
  return `${page}:${line}`;
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
