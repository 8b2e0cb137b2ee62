import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  // It is served below /ui/, and by `serve` perhaps behind a path of somebody's own.
  base: "./",
  build: {
    outDir: "dist",
    // Under a name made of their content, so that a browser may keep them.
    assetsDir: "assets",
    // A strict Content-Security-Policy allows no inline data.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // A browser asks six at a time: what is small and used by several views comes with the first load, not as a dozen files more.
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "shared", minShareCount: 2, test: /^(?!.*\/(?:src\/chart|uplot)\/)/, priority: 2 },
            { name: "chart", test: /\/(?:src\/chart|uplot)\//, priority: 1 },
          ],
        },
      },
    },
    target: "es2022",
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
