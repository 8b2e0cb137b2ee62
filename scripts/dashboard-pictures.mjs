/**
 * `npm run pictures:dashboard`: takes docs/images/dashboard-*, by the test that holds the guide to what it says (about three minutes).
 * Pictures are made small by `pngquant`, the recording by `img2webp` (of Debian's package `webp`), which this machine must have.
 */
import { spawnSync } from "node:child_process";

for (const [tool, option, from] of [
  ["pngquant", "--version", "pngquant"],
  ["img2webp", "-version", "webp"],
]) {
  if (spawnSync(tool, [option]).error) {
    console.error(`${tool} is missing: apt-get install ${from}`);
    process.exit(2);
  }
}
const { status } = spawnSync("npx", ["vitest", "run", "packages/dashboard/test/guide.test.ts"], {
  stdio: "inherit",
  env: { ...process.env, STATESET_PICTURES: "1" },
});
process.exit(status ?? 1);
