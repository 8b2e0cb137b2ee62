/** What users get is the packed artifact: pack every package, install the tarballs into an empty project, use every door and run the README's example there. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const work = mkdtempSync(join(tmpdir(), "stateset-pack-"));
const project = join(work, "project");
const env = { ...process.env, NO_COLOR: "1", CI: "1" };

const inFolder = (cwd: string, command: string, ...args: string[]) =>
  execFileSync(command, args, { cwd, encoding: "utf8", env, stdio: ["ignore", "pipe", "pipe"] });
const inProject = (command: string, ...args: string[]) => inFolder(project, command, ...args);

/** A few lines for each door that hold when its types came through, not when they became `any`. */
const uses: Record<string, string> = {
  "stateset-agents": `
import { MultiTurnAgent, type TrainOptions, train } from "stateset-agents";
export const options = (agent: MultiTurnAgent): Pick<TrainOptions, "agent" | "steps"> => ({ agent, steps: 3 });
// @ts-expect-error: no such option
export const wrong = () => new MultiTurnAgent({ sistemPrompt: "" });
export const trained: Promise<{ agent: MultiTurnAgent }> = train({} as TrainOptions<MultiTurnAgent>);`,
  "stateset-agents/policy": `
import { defaultSampling, openPolicy, type Policy } from "stateset-agents/policy";
export const open: () => Promise<Policy> = () => openPolicy({ model: "stub://a" });
// @ts-expect-error: a number
export const wrong: string = defaultSampling.temperature;`,
  "stateset-agents/algorithms": `
import { type Algorithm, createAlgorithm } from "stateset-agents/algorithms";
export const algorithm: Algorithm = createAlgorithm({ algorithm: "grpo", epsilonHigh: 0.3 });
// @ts-expect-error: no such algorithm
export const wrong = () => createAlgorithm("grop");`,
  "stateset-agents/rewards": `
import type { RewardFunction } from "stateset-agents";
import { ExactMatchReward, type Judge, judgeReward } from "stateset-agents/rewards";
export const reward: RewardFunction = new ExactMatchReward();
export const judged = (judge: Judge): RewardFunction => judgeReward({ judge, rubric: "polite" });
// @ts-expect-error: no rubric
export const wrong = (judge: Judge) => judgeReward({ judge });`,
  "stateset-agents/tools": `
import { type McpTools, mcpTools, type Tool, tool, ToolAgent } from "stateset-agents/tools";
import { z } from "zod";
export const files: () => Promise<McpTools> = () => mcpTools({ command: "files", args: ["."] }, { prefix: "files_" });
// @ts-expect-error: a command or an address
export const neither = () => mcpTools({ args: ["."] });
const add = tool({ name: "add", parameters: z.object({ a: z.number() }), execute: ({ a }) => a + 1 });
export const agent = new ToolAgent({ tools: [add] });
// @ts-expect-error: a number
export const wrong: Tool<{ a: string }> = add;`,
  "stateset-agents/server": `
import type { MultiTurnAgent } from "stateset-agents";
import { type AgentServer, createDashboard, createServer, staticKeys } from "stateset-agents/server";
export const looked = async (agent: MultiTurnAgent): Promise<AgentServer> =>
  createServer({ models: { support: agent }, routes: (await createDashboard({ folders: ["runs"] })).routes });
export const serve = (agent: MultiTurnAgent): Promise<AgentServer> =>
  createServer({ models: { support: agent }, keys: staticKeys(["a"]), deadlineMs: 30_000 });
// @ts-expect-error: no models
export const wrong = () => createServer({ maxWaiting: 3 });`,
  "stateset-agents/telemetry": `
import type { TrainOptions } from "stateset-agents";
import { readRun, type RunInfo, tensorBoardTracker } from "stateset-agents/telemetry";
export const trackers: NonNullable<TrainOptions["trackers"]> = [tensorBoardTracker()];
export const read: (dir: string) => RunInfo = readRun;
// @ts-expect-error: a list
export const wrong = (run: RunInfo): string => run.metrics;`,
  "stateset-agents/testing": `
import { MultiTurnAgent } from "stateset-agents";
import { createStubPolicy, fakeGroup } from "stateset-agents/testing";
export const agent = new MultiTurnAgent({ policy: createStubPolicy({ replies: ["Hello!"] }) });
// @ts-expect-error: a reward is missing
export const wrong = () => fakeGroup("late", [{ text: "a" }]);`,
  "stateset-agents/compat": `
import type { PatternReward as Moved } from "stateset-agents/rewards";
import { fromPythonConfig, GSPOConfig, PatternReward, type StepOptions } from "stateset-agents/compat";
export const size: number = GSPOConfig.fromTrainingConfig({ steps: 1 }).groupSize;
export const reward: PatternReward & Moved = new PatternReward({ pattern: /a/ });
export const step: StepOptions = { learningRate: 1 };
// @ts-expect-error: a record
export const wrong = () => fromPythonConfig(1);`,
};

describe("the packed packages", () => {
  beforeAll(() => {
    execFileSync("node", [join(root, "scripts/pack.mjs"), work], { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
    mkdirSync(project);
    writeFileSync(
      join(project, "package.json"),
      JSON.stringify({ name: "user-project", private: true, type: "module" }),
    );
    const tarballs = readdirSync(work)
      .filter((name) => name.endsWith(".tgz"))
      .map((name) => join(work, name));
    inProject("npm", "install", "--no-audit", "--no-fund", "--prefer-offline", ...tarballs);
  }, 180_000);
  afterAll(() => rmSync(work, { recursive: true, force: true }), 60_000);

  it("offer the doors that are tried here", () => {
    const { exports } = JSON.parse(readFileSync(join(project, "node_modules/stateset-agents/package.json"), "utf8"));
    const names = Object.keys(exports).filter((name) => name !== "./package.json");
    expect(names.map((name) => name.replace(".", "stateset-agents"))).toEqual(Object.keys(uses));
  });

  it("can be imported and required, door by door, as one library without a word", () => {
    const doors = JSON.stringify(Object.keys(uses));
    const print = `console.log(JSON.stringify(Object.fromEntries(Object.entries(loaded).map(([door, own]) => [door, Object.keys(own)]))));`;
    writeFileSync(
      join(project, "doors.mjs"),
      `const loaded = {}; for (const door of ${doors}) loaded[door] = await import(door); ${print}`,
    );
    writeFileSync(
      join(project, "doors.cjs"),
      `const loaded = Object.fromEntries(${doors}.map((door) => [door, require(door)])); ${print}`,
    );
    const [imported, required] = ["doors.mjs", "doors.cjs"].map((file) => {
      const { stdout, stderr } = spawnSync("node", [file], { cwd: project, encoding: "utf8", env });
      expect(stderr).toBe("");
      return JSON.parse(stdout) as Record<string, string[]>;
    });
    expect(required).toEqual(imported);
    expect(Object.values(required!).every((names) => names.length > 0)).toBe(true);
  }, 60_000);

  it("share their classes, between doors and between import and require", () => {
    writeFileSync(
      join(project, "shared.mjs"),
      `import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { RewardFunction, StatesetError } from "stateset-agents";
import { ExactMatchReward, PolitenessReward } from "stateset-agents/rewards";
import { openWeights } from "stateset-agents/policy";
const require = createRequire(import.meta.url);
assert(new ExactMatchReward() instanceof RewardFunction);
assert.equal(PolitenessReward, require("stateset-agents").PolitenessReward);
assert(new (require("stateset-agents/compat").PatternReward)({ pattern: /a/ }) instanceof RewardFunction);
assert((await openWeights("./nowhere").catch((error) => error)) instanceof StatesetError);`,
    );
    const { status, stderr } = spawnSync("node", ["shared.mjs"], { cwd: project, encoding: "utf8", env });
    expect(status, stderr).toBe(0);
    expect(stderr.match(/\[STATESET_MOVED\] DeprecationWarning: "PatternReward" has moved/g)).toHaveLength(1);
  }, 60_000);

  it("do without the client of MCP servers, and say how to get it where it is asked for", () => {
    expect(existsSync(join(project, "node_modules/@modelcontextprotocol"))).toBe(false);
    const program = 'import { mcpTools } from "stateset-agents/tools"; await mcpTools({ command: "files" });';
    writeFileSync(join(project, "mcp.mjs"), program);
    const { status, stderr } = spawnSync("node", ["mcp.mjs"], { cwd: project, encoding: "utf8", env });
    expect(status).toBe(1);
    expect(stderr).toContain("client of MCP servers is not installed. npm install @modelcontextprotocol/client");
    const flags = ["--bundle", "--platform=node", "--format=esm", "--external:@stateset-agents/*", "--log-level=error"];
    inProject(join(root, "node_modules/.bin/esbuild"), "mcp.mjs", ...flags, "--outfile=bundled/mcp.mjs");
  }, 60_000);

  // TypeScript lets a CommonJS file require() an ES module from module "node20" on, which resolves as "node16" does.
  it.each([
    { module: "node16", moduleResolution: "node16", callers: ["mts"] },
    { module: "node20", moduleResolution: "node16", callers: ["mts", "cts"] },
    { module: "esnext", moduleResolution: "bundler", callers: ["ts"] },
  ])(
    "bring types for module $module, resolved as $moduleResolution, to $callers",
    ({ callers, ...resolution }) => {
      const folder = join(project, `types-${resolution.module}`);
      mkdirSync(folder);
      for (const extension of callers) {
        for (const [door, code] of Object.entries(uses)) {
          writeFileSync(join(folder, `${door.replace("/", "-")}.${extension}`), code);
        }
      }
      const compilerOptions = {
        ...resolution,
        target: "es2023",
        lib: ["es2023"],
        strict: true,
        noEmit: true,
        skipLibCheck: true,
        types: ["node"],
        typeRoots: [join(root, "node_modules/@types")],
      };
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*"] }));
      const tsc = spawnSync(join(root, "node_modules/.bin/tsc"), ["-p", folder], { encoding: "utf8" });
      expect(tsc.stdout).toBe("");
      expect(tsc.status).toBe(0);
    },
    120_000,
  );

  it("run the README's example", () => {
    const readme = readFileSync(join(root, "README.md"), "utf8");
    const example = readme.match(/```ts\n([\s\S]*?)\n```/)![1]!;
    // The example is plain enough to run as JavaScript: installing a TypeScript runner is not part of the claim.
    writeFileSync(join(project, "example.mjs"), example);
    expect(inProject("node", "example.mjs")).toMatch(/\S/);
  }, 240_000);

  it("bring a working command line", () => {
    const { version } = JSON.parse(readFileSync(join(root, "packages/stateset-agents/package.json"), "utf8"));
    expect(inProject("npx", "stateset-agents", "version")).toContain(version);
  }, 60_000);

  // What the example learns is tried above; here it is only to run, so it takes two short steps.
  const short = () => {
    const readme = readFileSync(join(root, "README.md"), "utf8");
    const example = readme.match(/```ts\n([\s\S]*?)\n```/)![1]!;
    expect(example).toContain("steps: 12, progress: true");
    return example.replace("steps: 12", "steps: 2, groupSize: 2, groupsPerStep: 2");
  };
  const tsx = join(root, "node_modules/.bin/tsx");
  // Node runs TypeScript by itself from 22.18 on.
  const stripsTypes = (process.features as { typescript?: unknown }).typescript ? ["ts", "mts"] : [];
  it.each([
    ...["js", ...stripsTypes].map((extension) => ({ extension, command: "node" })),
    ...["ts", "mts"].map((extension) => ({ extension, command: tsx })),
  ])(
    "run that example as a .$extension file, and show how it goes",
    ({ extension, command }) => {
      const file = `pasted.${extension}`;
      writeFileSync(join(project, file), short());
      const { status, stderr, stdout } = spawnSync(command, [file], { cwd: project, encoding: "utf8", env });
      expect(status, stderr).toBe(0);
      expect(stderr).toMatch(/^step 2\/2 {2}reward /m);
      expect(stdout.trim().split("\n")).toHaveLength(1);
    },
    60_000,
  );

  it("run that example with require() where package.json says commonjs, as `npm init -y` writes it", () => {
    const folder = join(project, "commonjs");
    mkdirSync(folder);
    writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "commonjs", type: "commonjs" }));
    const [imports, ...rest] = short().split("\n\n");
    const required = imports!.replace(/^import (\{.*\}) from (".*");$/m, "const $1 = require($2);");
    writeFileSync(join(folder, "app.js"), `${required}\n(async () => {\n${rest.join("\n\n")}\n})();\n`);
    const { status, stderr } = spawnSync("node", ["app.js"], { cwd: folder, encoding: "utf8", env });
    expect(status, stderr).toBe(0);
    expect(stderr).toMatch(/^step 2\/2 {2}reward /m);
  }, 60_000);

  it("can be bundled as long as the engine and the starter model stay outside", () => {
    const app = `import { MultiTurnAgent } from "stateset-agents";
const agent = new MultiTurnAgent({ sampling: { maxTokens: 8 }, seed: 1 });
await agent.initialize();
console.log(await agent.generateResponse([{ role: "user", content: "Hello" }]));
await agent.close();`;
    writeFileSync(join(project, "app.js"), app);
    const esbuild = join(root, "node_modules/.bin/esbuild");
    const bundled = (...external: string[]) => {
      const flags = ["--bundle", "--platform=node", "--format=esm", "--outfile=bundled/app.js", "--log-level=error"];
      inProject(esbuild, "app.js", ...flags, ...external.map((name) => `--external:${name}`));
      return inProject("node", "bundled/app.js");
    };
    const [whole, parts] = [bundled("stateset-agents"), bundled("@stateset-agents/*")];
    expect(whole).toMatch(/\S/);
    expect(parts).toBe(whole);
    // What docs/guides/use-in-your-app.md warns of.
    expect(() => bundled()).toThrow(/MODEL_NOT_FOUND|ENGINE_UNAVAILABLE/);
  }, 60_000);

  it("answer alike in every worker thread, and outlive one that is ended in the middle", () => {
    writeFileSync(
      join(project, "workers.js"),
      `import assert from "node:assert/strict";
import { once } from "node:events";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { MultiTurnAgent } from "stateset-agents";
const agent = new MultiTurnAgent({ sampling: { maxTokens: 12 }, threads: 1 });
await agent.initialize();
const answer = (seed) => agent.generateResponse([{ role: "user", content: "Where is my order?" }], { seed });
if (isMainThread) {
  const workers = [1, 2].map(() => new Worker(new URL(import.meta.url)));
  const replies = await Promise.all([answer(1), ...workers.map(async (worker) => (await once(worker, "message"))[0])]);
  assert.equal(new Set(replies).size, 1);
  await Promise.all(workers.map((worker) => worker.terminate()));
  assert.equal(await answer(1), replies[0]);
  await agent.close();
} else {
  parentPort.postMessage(await answer(1));
  for (let seed = 2; ; seed++) await answer(seed);
}`,
    );
    const { status, stderr } = spawnSync("node", ["workers.js"], { cwd: project, encoding: "utf8", env });
    expect(status, stderr).toBe(0);
  }, 60_000);

  it("bring the dashboard: page, thread and all, without a build or a network", async () => {
    const cache = { XDG_CACHE_HOME: join(work, "cache") };
    const command = ["stateset-agents", "dashboard", "--json", "--port", "0"];
    // A group of its own: what npx started is told with it.
    const child = spawn("npx", command, { cwd: project, env: { ...env, ...cache }, detached: true });
    const ended = new Promise((settle) => child.once("exit", settle));
    try {
      const line = await new Promise<string>((settle, fail) => {
        child.stdout.on("data", (data) => settle(String(data)));
        void ended.then(() => fail(new Error("It ended before it said where it is.")));
      });
      const { url, link } = JSON.parse(line) as { url: string; link: string };
      const page = await (await fetch(`${url}/ui/`)).text();
      const files = [...page.matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map(([, file]) => file!);
      expect(files.some((file) => file.endsWith(".js"))).toBe(true);
      for (const file of files) {
        const asset = await fetch(`${url}/ui/${file}`, { headers: { "accept-encoding": "br" } });
        expect([file, asset.status, asset.headers.get("content-encoding")]).toEqual([file, 200, "br"]);
        expect((await asset.text()).length).toBeGreaterThan(0);
      }
      const cookie = (await fetch(link, { redirect: "manual" })).headers.get("set-cookie")!.split(";")[0]!;
      const runs = await fetch(`${url}/ui/api/runs`, { headers: { cookie } });
      expect([runs.status, await runs.json()]).toMatchObject([200, { readOnly: false, rows: expect.any(Array) }]);
    } finally {
      process.kill(-child.pid!, "SIGTERM");
      await ended;
    }
  }, 60_000);

  it("hold the thread that makes constraints", () => {
    writeFileSync(
      join(project, "constraint.js"),
      `import { once } from "node:events";
import { Worker } from "node:worker_threads";
const worker = new Worker("./node_modules/stateset-agents/dist/constraint-worker.mjs");
await once(worker, "message");
const schemas = JSON.stringify({ tools: [], answer: { schema: { const: "ab" } } });
worker.postMessage({ schemas, reasoning: false, limits: { maxLength: 9, maxItems: 9, maxDepth: 2 } });
const [{ made }] = await once(worker, "message");
console.log(made.flags.join());
await worker.terminate();`,
    );
    // The quotes and two letters, and then the end.
    expect(inProject("node", "constraint.js").trim()).toBe("0,0,0,0,2");
  });

  it("make a project that can be installed and trained, though nothing is published", () => {
    inProject("npx", "stateset-agents", "init", "my-agent", "--yes");
    const cwd = join(project, "my-agent");
    const { dependencies } = JSON.parse(readFileSync(join(cwd, "package.json"), "utf8"));
    expect(dependencies["stateset-agents"]).toMatch(/^file:.*\.tgz$/);
    inFolder(cwd, "npm", "install", "--no-audit", "--no-fund", "--prefer-offline");
    const flags = ["--stub", "--steps", "1", "--set", "groupsPerStep=1", "--set", "groupSize=2"];
    expect(inFolder(cwd, "npm", "run", "train", "--", ...flags)).toContain("step 1/1");
  }, 120_000);

  it("hold pages whose links lead to something that is packed too", () => {
    const packed = join(project, "node_modules/stateset-agents");
    const pages = (readdirSync(packed, { recursive: true }) as string[]).filter(
      (file) => file.endsWith(".md") && !file.includes("node_modules"),
    );
    expect(pages).toContain("README.md");
    const links = pages.flatMap((page) => {
      const text = readFileSync(join(packed, page), "utf8");
      return [...text.matchAll(/\]\(([^)\s#]+)[^)]*\)/g)].map(([, to]) => ({ page, to: to! }));
    });
    const relative = links.filter(({ to }) => !/^[a-z]+:/i.test(to));
    expect(relative).toContainEqual({ page: "README.md", to: "docs/images/demo.svg" });
    expect(relative.filter(({ page, to }) => !existsSync(resolve(packed, dirname(page), to)))).toEqual([]);
  });

  it("bring the PyTorch worker, all of it and nothing beside, where it is looked for", () => {
    const own = (dir: string) =>
      readdirSync(dir)
        .filter((name) => name !== "__pycache__")
        .sort();
    const packed = join(project, "node_modules/stateset-agents/python");
    expect(own(packed)).toEqual(["README.md", "pyproject.toml", "stateset_agents_worker"]);
    const modules = join(packed, "stateset_agents_worker");
    expect(own(modules)).toEqual(own(join(root, "python/stateset_agents_worker")));
    expect(existsSync(join(root, "packages/stateset-agents/python"))).toBe(false);
    const asked = spawnSync("npx", ["stateset-agents", "doctor", "--json"], { cwd: project, encoding: "utf8", env });
    const worker = JSON.parse(asked.stdout).checks.find(({ name }: { name: string }) => name === "Worker");
    expect(worker.detail).toContain(packed);
  }, 180_000);

  it("contain no tests, sources of other packages or build leftovers", () => {
    const files = readdirSync(join(project, "node_modules/stateset-agents"), { recursive: true }).map(String);
    expect(files.filter((file) => /\.test\.|(^|\/)src\//.test(file) && !file.includes("node_modules"))).toEqual([]);
  });
});
