import { defineConfig } from "tsdown";

export default defineConfig({
  entry: {
    index: "src/index.ts",
    policy: "src/doors/policy.ts",
    algorithms: "src/doors/algorithms.ts",
    rewards: "src/doors/rewards.ts",
    tools: "src/doors/tools.ts",
    server: "src/doors/server.ts",
    telemetry: "src/doors/telemetry.ts",
    testing: "src/doors/testing.ts",
    compat: "src/doors/compat.ts",
    // Threads of their own, no doors: compile-in-worker.ts and open-reader.ts start them.
    "constraint-worker": "src/tool/constrain/constraint-worker.ts",
    "reader-worker": "src/dashboard/read/reader-worker.ts",
    "cli/main": "src/cli/main.ts",
    "cli/grpo-train": "src/cli/grpo-train.ts",
    "cli/grpo-evaluate": "src/cli/grpo-evaluate.ts",
    "cli/grpo-serve": "src/cli/grpo-serve.ts",
  },
  format: "esm",
  platform: "node",
  target: "node20.19",
  dts: true,
  // The time spent on type declarations is no news.
  inputOptions: { checks: { pluginTimings: false } },
  clean: true,
});
