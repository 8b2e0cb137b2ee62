/** Pictures for README and docs, taken where a test stands. Nothing is taken unless `npm run pictures:dashboard` asks for it. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";

export const takesPictures = process.env.STATESET_PICTURES === "1";
const images = fileURLToPath(new URL("../../../../docs/images/", import.meta.url));
/** Pixels for one of the page's: text stays sharp, and a picture small. */
export const scale = 1.25;
export const size = { width: 1280, height: 720 };
const framesPerSecond = 10;

/** docs/images/dashboard-<name>-light.png and -dark.png of what is in sight. */
export async function picture(page: Page, name: string, height = size.height): Promise<void> {
  if (!takesPictures) return;
  await page.setViewportSize({ ...size, height });
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(500);
    const file = join(images, `dashboard-${name}-${colorScheme}.png`);
    await page.screenshot({ path: file });
    execFileSync("pngquant", ["--force", "--strip", "--speed", "1", "--output", file, "96", file]);
  }
  await page.emulateMedia({ colorScheme: "light" });
}

/** docs/images/dashboard-<name>.webp of what the page shows while `during` goes on. */
export async function record(page: Page, name: string, during: () => Promise<void>): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const frames: { at: number; data: string }[] = [];
  session.on("Page.screencastFrame", ({ data, metadata, sessionId }) => {
    frames.push({ at: metadata.timestamp ?? 0, data });
    void session.send("Page.screencastFrameAck", { sessionId });
  });
  await session.send("Page.startScreencast", { format: "png", everyNthFrame: 1 });
  await during();
  await session.send("Page.stopScreencast");
  writeAnimation(frames, join(images, `dashboard-${name}.webp`));
}

/** The browser sends a frame when something changed; each tick shows the last that came before it. */
function writeAnimation(frames: readonly { at: number; data: string }[], file: string): void {
  const [first, last] = [frames[0]!.at, frames.at(-1)!.at];
  const ticks = Array.from({ length: Math.ceil((last - first) * framesPerSecond) + 1 }, (_, i) =>
    frames.findLastIndex(({ at }) => at <= first + i / framesPerSecond),
  );
  const folder = mkdtempSync(join(tmpdir(), "frames-"));
  try {
    const shown: { file: string; ms: number }[] = [];
    for (const [i, frame] of ticks.entries()) {
      if (i > 0 && ticks[i - 1] === frame) {
        shown.at(-1)!.ms += 1000 / framesPerSecond;
        continue;
      }
      const one = join(folder, `${i}.png`);
      writeFileSync(one, Buffer.from(frames[frame]!.data, "base64"));
      shown.push({ file: one, ms: 1000 / framesPerSecond });
    }
    const each = shown.flatMap(({ file, ms }) => ["-lossless", "-m", "4", "-d", String(ms), file]);
    execFileSync("img2webp", ["-loop", "0", "-kmax", "40", ...each, "-o", file]);
    const seconds = ticks.length / framesPerSecond;
    console.log(`${file}: ${seconds} s, ${shown.length} frames that differ, ${readFileSync(file).length} bytes`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
