/** What a page does while somebody scrolls and points. */
import type { Browser, CDPSession, Page } from "playwright-core";
import { nameOf } from "./make-runs.ts";
import { devtools, freshPage, gone, opened, signIn, viewport } from "./pages.ts";
import { memoryOf, startDashboard } from "./processes.ts";
import { type FrameWork, frameWork, type TraceEvent, traceCategories } from "./trace.ts";
import { type PageMemory, pageMemory } from "./views.ts";

export interface Motion {
  work: Record<string, FrameWork>;
  /** The most that was seen after any of it. */
  memory: PageMemory;
  /** MiB that the system counts for a page of this browser with nothing on it. */
  emptyPage: number;
  tokensOpenedMs: number;
  /** MiB of the server at its most after all of it. Absent in records from before it was looked at. */
  serverMemory?: number;
}

const pixels = 16_000;

export async function measureMotion(
  browser: Browser,
  folder: { runs: string; cache: string },
  { steps, overlaid }: { steps: number; overlaid: number },
): Promise<Motion> {
  const server = await startDashboard(folder.runs, folder.cache);
  try {
    const cookies = await signIn(browser, server);
    const emptyPage = await emptyPageMemory(browser);
    const page = await freshPage(browser, cookies);
    const session = await devtools(page);
    const work: Record<string, FrameWork> = {};
    const memory: PageMemory = { heap: 0, own: 0, process: 0 };
    const traced = async (what: string, act: () => Promise<unknown>) => {
      await browser.startTracing(page, { categories: traceCategories });
      await act();
      const trace = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
      work[what] = frameWork(trace.traceEvents);
      const now = await pageMemory(browser, page);
      for (const part of ["heap", "own", "process"] as const) memory[part] = Math.max(memory[part], now[part]);
    };
    const scrolled = () => scroll(session);

    await opened(page, `${server.url}/ui/#/run/${nameOf(0)}/step/all`, { '[data-testid="conversation"]': 10 });
    await traced("scrolling 5,000 conversations", scrolled);

    const long = `#/trajectory/${encodeURIComponent(`${nameOf(0)}:${steps}:0`)}`;
    const tokensOpenedMs = await gone(page, long, { "[data-token]": 100 });
    await traced("scrolling 100,000 tokens", scrolled);
    await traced("pointing at tokens", () => pointAcross(page, "[data-token]"));

    const runs = Array.from({ length: overlaid }, (_, i) => nameOf(i)).join(",");
    await gone(page, `#/compare?runs=${runs}`, { ".chart-box canvas": 1 });
    await traced(`the cursor over ${overlaid} curves`, () => pointAcross(page, ".chart-box .u-over"));
    await gone(page, `#/run/${nameOf(1)}`, { ".chart-box canvas": 3 });
    await traced("the cursor over a run's charts", () => pointAcross(page, ".chart-box .u-over"));
    await traced("scrolling a run's charts", scrolled);
    await gone(page, "#/runs", { '[data-testid="run-row"]': 5 });
    await traced("scrolling the runs", scrolled);
    await page.context().close();
    return { work, memory, emptyPage, tokensOpenedMs, serverMemory: memoryOf(server.pid).most };
  } finally {
    await server.end();
  }
}

async function emptyPageMemory(browser: Browser): Promise<number> {
  const page = await freshPage(browser);
  await page.goto("about:blank");
  const { process } = await pageMemory(browser, page);
  await page.context().close();
  return process;
}

/** Down, and back up, as a wheel does. */
async function scroll(session: CDPSession): Promise<void> {
  const at = { x: viewport.width / 2, y: viewport.height / 2 };
  for (const yDistance of [-pixels, pixels / 2])
    await session.send("Input.synthesizeScrollGesture", {
      ...at,
      ...{ yDistance, speed: 8000, gestureSourceType: "mouse" },
    });
}

/** From one side of what is seen of it to the other and down, a move a frame or so. */
async function pointAcross(page: Page, selector: string): Promise<void> {
  const place = await page.evaluate((of) => {
    const seen = [...document.querySelectorAll(of)]
      .map((one) => one.getBoundingClientRect())
      .filter(({ top, bottom }) => bottom > 120 && top < innerHeight - 120);
    const [left, right] = [Math.min(...seen.map((one) => one.left)), Math.max(...seen.map((one) => one.right))];
    return {
      left,
      right,
      top: Math.max(130, seen[0]?.top ?? 0),
      bottom: Math.min(innerHeight - 140, seen.at(-1)?.bottom ?? 0),
    };
  }, selector);
  const moves = 80;
  for (let i = 0; i < moves; i++) {
    const along = (i % 40) / 40;
    const x = place.left + 5 + along * (place.right - place.left - 10);
    await page.mouse.move(x, place.top + 10 + (i / moves) * Math.max(0, place.bottom - place.top - 20));
    await page.evaluate(() => new Promise((settle) => requestAnimationFrame(settle)));
  }
}
