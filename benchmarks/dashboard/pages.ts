/** Pages of a dashboard, and when they show what was asked for, by their own clocks. */
import type { Browser, BrowserContext, CDPSession, Page } from "playwright-core";
import type { OurServer } from "./processes.ts";

export const viewport = { width: 1280, height: 900 };

export type Cookies = Awaited<ReturnType<BrowserContext["storageState"]>>;

export async function signIn(browser: Browser, { link }: OurServer): Promise<Cookies> {
  const context = await browser.newContext();
  await (await context.newPage()).goto(link);
  const cookies = await context.storageState();
  await context.close();
  return cookies;
}

/** Nothing is in its cache. */
export async function freshPage(browser: Browser, storageState?: Cookies): Promise<Page> {
  const context = await browser.newContext({ viewport, ...(storageState && { storageState }) });
  // tsx names the functions that it compiles, those for the page too.
  await context.addInitScript("globalThis.__name = (named) => named");
  return context.newPage();
}

/** How many of each must be there. */
export type Wanted = Readonly<Record<string, number>>;

export const chartOf = (runs: number): Wanted => ({ ".legend-item": runs, ".chart-box canvas": 1 });

/** Milliseconds from the beginning of the navigation until all of it is drawn and the page could take the next event. */
export async function opened(page: Page, url: string, wanted: Wanted): Promise<number> {
  await page.goto(url, { waitUntil: "commit" });
  return page.evaluate(drawn, { wanted });
}

/** The same within the page, from the moment its place is another. */
export function gone(page: Page, place: string, wanted: Wanted): Promise<number> {
  return page.evaluate(drawn, { wanted, place });
}

async function drawn({ wanted, place }: { wanted: Wanted; place?: string }): Promise<number> {
  const frame = () => new Promise((settle) => requestAnimationFrame(settle));
  const from = place === undefined ? 0 : performance.now();
  if (place !== undefined) location.hash = place;
  const isThere = () =>
    Object.entries(wanted).every(([selector, count]) => document.querySelectorAll(selector).length >= count);
  do await frame();
  while (!isThere());
  // The frame that shows it has been made once the next one begins.
  await frame();
  return performance.now() - from;
}

export function devtools(page: Page): Promise<CDPSession> {
  return page.context().newCDPSession(page);
}
