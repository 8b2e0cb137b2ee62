/** How long the views of many long runs take, and what their page and server hold in memory. */
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { nameOf } from "./make-runs.ts";
import { median } from "./numbers.ts";
import { chartOf, devtools, freshPage, gone, opened, signIn } from "./pages.ts";
import { memoryOf, type OurServer, startDashboard } from "./processes.ts";

export interface Views {
  /** Milliseconds, as all. From the start of the command until it listens. */
  commandMs: number;
  indexMs: number;
  firstViewMs: number;
  listAgainMs: number;
  runMs: number;
  overlayMs: number;
  /** The same, opened by its address. */
  overlayOpenedMs: number;
  /** MiB. */
  serverIndexing: number;
  serverMemory: number;
}

const rows = { '[data-testid="run-row"]': 5 };

export async function measureViews(
  browser: Browser,
  folder: { runs: string; work: string },
  { overlaid, rounds }: { overlaid: number; rounds: number },
): Promise<Views & { cache: string }> {
  const cache = mkdtempSync(join(folder.work, "cache-"));
  const began = performance.now();
  let server = await startDashboard(folder.runs, cache);
  const commandMs = performance.now() - began;
  const indexMs = await listed(server);
  const serverIndexing = memoryOf(server.pid).most;
  await server.end();

  const first: number[] = [];
  for (let round = 0; round < rounds; round++) {
    server = await startDashboard(folder.runs, cache);
    const page = await freshPage(browser);
    first.push(await opened(page, server.link, rows));
    await page.context().close();
    await server.end();
  }
  server = await startDashboard(folder.runs, cache);
  try {
    const page = await freshPage(browser, await signIn(browser, server));
    const overlay = `#/compare?runs=${Array.from({ length: overlaid }, (_, i) => nameOf(i)).join(",")}`;
    const [again, run, over, overOpened]: number[][] = [[], [], [], []];
    await opened(page, `${server.url}/ui/`, rows);
    for (let round = 0; round < rounds; round++) {
      again!.push(await opened(page, `${server.url}/ui/?${round}#/runs`, rows));
      run!.push(await gone(page, `#/run/${nameOf(round)}`, { ".chart-box canvas": 3 }));
      await gone(page, "#/runs", rows);
      over!.push(await gone(page, overlay, chartOf(overlaid)));
      overOpened!.push(await opened(page, `${server.url}/ui/?again${round}${overlay}`, chartOf(overlaid)));
    }
    const serverMemory = memoryOf(server.pid).most;
    await page.context().close();
    return {
      ...{ cache, commandMs, indexMs, serverIndexing, serverMemory, firstViewMs: median(first) },
      ...{ listAgainMs: median(again!), runMs: median(run!), overlayMs: median(over!) },
      overlayOpenedMs: median(overOpened!),
    };
  } finally {
    await server.end();
  }
}

/** Until the whole list is answered. */
async function listed(server: OurServer): Promise<number> {
  const cookie = await cookieOf(server);
  const began = performance.now();
  const answer = await fetch(`${server.url}/ui/api/runs`, { headers: { cookie } });
  if (!answer.ok) throw new Error(`The list of runs was answered with ${answer.status}.`);
  await answer.arrayBuffer();
  return performance.now() - began;
}

export async function cookieOf({ link }: OurServer): Promise<string> {
  const answer = await fetch(link, { redirect: "manual" });
  return answer.headers
    .getSetCookie()
    .map((cookie) => cookie.split(";")[0])
    .join("; ");
}

/** MiB: of all objects, once what is not used is collected; and of the page's process, its own and with what it shares. */
export interface PageMemory {
  heap: number;
  own: number;
  process: number;
}

export async function pageMemory(browser: Browser, page: Page): Promise<PageMemory> {
  const session = await devtools(page);
  await session.send("Performance.enable");
  const { metrics } = await session.send("Performance.getMetrics");
  const heap = metrics.find(({ name }) => name === "JSHeapUsedSize")!.value / 2 ** 20;
  const whole = await browser.newBrowserCDPSession();
  const { processInfo } = await whole.send("SystemInfo.getProcessInfo");
  const renderers = processInfo.filter(({ type }) => type === "renderer").map(({ id }) => memoryOf(id));
  return {
    heap,
    own: Math.max(...renderers.map(({ own }) => own)),
    process: Math.max(...renderers.map(({ most }) => most)),
  };
}
