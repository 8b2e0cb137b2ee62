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
    target: "es2022",
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
