/** When the curves of a page are on the screen, and what was sent for it: by the browser's own pictures, so the same for every page. */

import { setTimeout as sleep } from "node:timers/promises";
import type { Browser, CDPSession, Page } from "playwright-core";
import { type Cookies, devtools, freshPage } from "./pages.ts";

export interface FirstCurve {
  /** Milliseconds from the navigation to the first picture with half of what the chart shows in the end. */
  ms: number;
  /** Bytes over HTTP, of all and of data alone. */
  bytes: number;
  dataBytes: number;
}

interface Shot {
  /** Seconds, by the clock. */
  at: number;
  data: string;
}

const calmMs = 1500;
const mostMs = 60_000;

export async function firstCurve(browser: Browser, url: string, chart: string, cookies?: Cookies): Promise<FirstCurve> {
  const page = await freshPage(browser, cookies);
  try {
    const session = await devtools(page);
    const sent = await countBytes(session);
    const shots: Shot[] = [];
    session.on("Page.screencastFrame", ({ data, metadata, sessionId }) => {
      shots.push({ at: metadata.timestamp ?? Date.now() / 1000, data });
      void session.send("Page.screencastFrameAck", { sessionId }).catch(() => {});
    });
    await session.send("Page.startScreencast", { format: "jpeg", quality: 70, everyNthFrame: 1 });
    const began = Date.now();
    await page.goto(url, { waitUntil: "commit" });
    const box = page.locator(chart).first();
    await box.waitFor({ timeout: mostMs });
    for (let seen = -1; seen !== shots.length && Date.now() - began < mostMs; ) {
      seen = shots.length;
      await sleep(calmMs);
    }
    await session.send("Page.stopScreencast");
    const place = (await box.boundingBox())!;
    const at = await firstDrawn(browser, shots, place);
    return { ms: at * 1000 - began, ...sent() };
  } finally {
    await page.context().close();
  }
}

async function countBytes(session: CDPSession): Promise<() => { bytes: number; dataBytes: number }> {
  const kinds = new Map<string, string>();
  let [bytes, dataBytes] = [0, 0];
  session.on("Network.responseReceived", ({ requestId, type }) => void kinds.set(requestId, type));
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    bytes += encodedDataLength;
    if (["XHR", "Fetch"].includes(kinds.get(requestId) ?? "")) dataBytes += encodedDataLength;
  });
  await session.send("Network.enable");
  return () => ({ bytes, dataBytes });
}

/** The moment of the first picture that has half of the coloured points that the last one has in that place. */
async function firstDrawn(
  browser: Browser,
  shots: readonly Shot[],
  place: { x: number; y: number; width: number; height: number },
): Promise<number> {
  const page: Page = await freshPage(browser);
  try {
    const index = await page.evaluate(
      async ({ pictures, place: { x, y, width, height } }) => {
        const coloured = async (picture: string) => {
          const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
          const image = await createImageBitmap(new Blob([bytes], { type: "image/jpeg" }));
          const canvas = new OffscreenCanvas(width, height).getContext("2d")!;
          canvas.drawImage(image, -x, -y);
          const { data } = canvas.getImageData(0, 0, width, height);
          const of = new Uint8Array(data.length >> 2);
          for (let i = 0; i < of.length; i++) {
            const [r, g, b] = [data[4 * i]!, data[4 * i + 1]!, data[4 * i + 2]!];
            if (Math.max(r, g, b) - Math.min(r, g, b) > 40) of[i] = 1;
          }
          return of;
        };
        const last = await coloured(pictures.at(-1)!);
        const all = last.reduce((sum, one) => sum + one, 0);
        if (all < 200) return -1;
        for (const [i, picture] of pictures.entries()) {
          const of = await coloured(picture);
          let shared = 0;
          for (let p = 0; p < of.length; p++) shared += of[p]! & last[p]!;
          if (2 * shared >= all) return i;
        }
        return -1;
      },
      { pictures: shots.map(({ data }) => data), place },
    );
    if (index < 0) throw new Error("No curve was drawn.");
    return shots[index]!.at;
  } finally {
    await page.context().close();
  }
}
