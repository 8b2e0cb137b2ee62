/** When the curves of a page are on the screen, and what was sent for it: by the browser's own pictures, so the same for every page. */

import { setTimeout as sleep } from "node:timers/promises";
import type { Browser, CDPSession } from "playwright-core";
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

interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

const calmMs = 1500;
/** A page that never rests is looked at all the same. */
const restlessMs = 20_000;
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
    let at: number | undefined;
    while (at === undefined) {
      if (Date.now() - began > mostMs) throw new Error(`No curve was drawn on ${url}.`);
      const waiting = Date.now();
      for (let seen = -1; seen !== shots.length && Date.now() - waiting < restlessMs; ) {
        seen = shots.length;
        await sleep(calmMs);
      }
      at = await firstDrawn(browser, shots, (await box.boundingBox())!);
    }
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

/** The moment of the first picture that has half of the coloured points that the last one has in that place. Curves stay once they are drawn. Undefined: none is. */
async function firstDrawn(browser: Browser, shots: readonly Shot[], place: Place): Promise<number | undefined> {
  const page = await freshPage(browser);
  try {
    const shareOf = ({ data }: Shot) => page.evaluate(shareDrawn, { picture: data, place });
    // The first one that is looked at is what others are beside.
    if ((await shareOf(shots.at(-1)!)) === 0) return undefined;
    let [from, to] = [0, shots.length - 1];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((await shareOf(shots[middle]!)) >= 0.5) to = middle;
      else from = middle + 1;
    }
    return shots[to]!.at;
  } finally {
    await page.context().close();
  }
}

/** Runs in a page: of the coloured points in the first picture, the share that is coloured in this one. */
async function shareDrawn({
  picture,
  place: { x, y, width, height },
}: {
  picture: string;
  place: Place;
}): Promise<number> {
  const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], { type: "image/jpeg" }));
  const canvas = new OffscreenCanvas(width, height).getContext("2d")!;
  canvas.drawImage(image, -x, -y);
  const { data } = canvas.getImageData(0, 0, width, height);
  const coloured = new Uint8Array(data.length >> 2);
  for (let i = 0; i < coloured.length; i++) {
    const [r, g, b] = [data[4 * i]!, data[4 * i + 1]!, data[4 * i + 2]!];
    if (Math.max(r, g, b) - Math.min(r, g, b) > 40) coloured[i] = 1;
  }
  const kept = globalThis as typeof globalThis & { last?: Uint8Array };
  kept.last ??= coloured;
  let [all, shared] = [0, 0];
  for (let i = 0; i < coloured.length; i++) {
    all += kept.last[i]!;
    shared += coloured[i]! & kept.last[i]!;
  }
  return all < 200 ? 0 : shared / all;
}
