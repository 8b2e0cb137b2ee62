import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  resolve: {
    alias: [
      { find: "@stateset-agents/engine", replacement: at("packages/engine/src/index.ts") },
      { find: /^stateset-agents$/, replacement: at("packages/stateset-agents/src/index.ts") },
      { find: /^stateset-agents\/([a-z]+)$/, replacement: at("packages/stateset-agents/src/doors/$1.ts") },
    ],
  },
  test: {
    include: ["packages/*/src/**/*.test.ts", "packages/*/test/**/*.test.ts", "test/**/*.test.ts"],
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
    silent: process.env.CI ? "passed-only" : false,
  },
});
