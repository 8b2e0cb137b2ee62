import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const everything = ["packages/*/src/**/*.test.ts", "packages/*/test/**/*.test.ts", "test/**/*.test.ts"];

/** Rooms whose tests share a process, which spares a third of their time: to read the same modules again. */
const rooms = [
  "packages/dashboard/src",
  ...[
    ...["agent", "algorithm", "compat", "conversation", "dashboard", "doors", "environment", "evaluation", "harness"],
    ...["learning", "policy/gguf", "policy/tokenizer", "policy/weights", "preference", "project", "reward", "rollout"],
    ...["run", "server", "supervised", "telemetry", "tool", "training"],
  ].map((room) => `packages/stateset-agents/src/${room}`),
];
/** What the next file in a process would find changed, or a warning that is given once and that it waits for. */
const changesProcess = /vi\.(?:mock|doMock|stubEnv|stubGlobal)\b|spyOn\(process|process\.(?:env|on|once|emitWarning)\b/;
const together = rooms.flatMap((room) =>
  readdirSync(at(room), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".test.ts"))
    .map((file) => `${room}/${file.replaceAll("\\", "/")}`)
    .filter((file) => !changesProcess.test(readFileSync(at(file), "utf8"))),
);

export default defineConfig({
  resolve: {
    alias: [
      { find: "@stateset-agents/engine", replacement: at("packages/engine/src/index.ts") },
      { find: /^stateset-agents$/, replacement: at("packages/stateset-agents/src/index.ts") },
      { find: /^stateset-agents\/([a-z]+)$/, replacement: at("packages/stateset-agents/src/doors/$1.ts") },
    ],
  },
  test: {
    projects: [
      { extends: true, test: { name: "together", include: together, isolate: false } },
      { extends: true, test: { name: "apart", include: everything, exclude: [...together, "**/node_modules/**"] } },
    ],
    setupFiles: [at("test/setup.ts")],
    globalSetup: ["test/no-leftovers.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // What is waited for comes, however busy the machine is.
    expect: { poll: { timeout: 30_000 } },
    // Forks: native addons and process-wide state (signals, environment) stay apart.
    pool: "forks",
    maxWorkers: 2,
    // CI keeps a part of what is printed: what passed is not printed there.
    reporters: process.env.CI ? ["minimal", at("test/summary-reporter.ts")] : ["default"],
    // What passes only then is named in the summary: it is a fault to be found, not one to lose a whole run to.
    retry: process.env.CI ? 1 : 0,
    silent: process.env.CI ? "passed-only" : false,
  },
});
