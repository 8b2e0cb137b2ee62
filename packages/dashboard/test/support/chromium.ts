/** The browser of these tests: Debian's Chromium, or the one that STATESET_CHROMIUM names. Without one they are skipped, and `npm test` says so. */
import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";

export const chromiumPath =
  process.env.STATESET_CHROMIUM ||
  ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => existsSync(path));

export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: chromiumPath!,
    args: [
      // Containers have no namespaces to build its own sandbox of; it sees nothing but pages of this machine.
      ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
      ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
    ],
  });
}
