/** What users get is the packed artifact: pack every package, install the tarballs into an empty project, use every door and run the README's example there. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const work = mkdtempSync(join(tmpdir(), "stateset-pack-"));
const project = join(work, "project");
const env = { ...process.env, NO_COLOR: "1", CI: "1" };

const inProject = (command: string, ...args: string[]) =>
  execFileSync(command, args, { cwd: project, encoding: "utf8", env, stdio: ["ignore", "pipe", "pipe"] });

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

  it("contain no tests, sources of other packages or build leftovers", () => {
    const files = readdirSync(join(project, "node_modules/stateset-agents"), { recursive: true }).map(String);
    expect(files.filter((file) => /\.test\.|(^|\/)src\//.test(file) && !file.includes("node_modules"))).toEqual([]);
  });
});
