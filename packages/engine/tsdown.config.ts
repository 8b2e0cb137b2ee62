import { defineConfig } from "tsdown";

export default defineConfig({
  entry: { index: "src/index.ts" },
  format: "esm",
  platform: "node",
  target: "node20.19",
  dts: true,
  // The time spent on type declarations is no news.
  inputOptions: { checks: { pluginTimings: false } },
  clean: false,
});
