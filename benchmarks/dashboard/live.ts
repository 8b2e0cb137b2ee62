/** How soon the page shows what happens in a run that trains, and that its process was killed. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";
import { median } from "./numbers.ts";
import { freshPage, signIn, viewport } from "./pages.ts";
import { startDashboard } from "./processes.ts";
import { linesOf, startTraining } from "./training.ts";

export interface Live {
  /** Milliseconds: the middle one and the longest. */
  step: { median: number; longest: number; count: number };
  conversation: { median: number; longest: number; count: number };
  lostMs: number;
}

/** Text or id → when it was first on the page, by the clock. */
type Seen = Record<string, number>;

/** What happened, when, and by which of the names on the page it is seen. */
interface Happened {
  what: string;
  at: number;
  isNamed(name: string): boolean;
}

/** Rows of a list are drawn where the window is: in one so high all of them are, also where many come at once. */
const height = 12_000;
/** What is later than this is held to be missing. */
const mostMs = 30_000;

export async function measureLive(browser: Browser, folder: string, steps: number): Promise<Live> {
  const name = "watched";
  const server = await startDashboard(`${folder}/runs`, `${folder}/cache-live`);
  try {
    const cookies = await signIn(browser, server);
    const [run, live] = [await freshPage(browser, cookies), await freshPage(browser, cookies)];
    await live.setViewportSize({ ...viewport, height });
    // More than will be done: it is killed.
    const training = startTraining(folder, name, 100 * steps);
    const written = watchSteps(training.dir, steps);
    while (linesOf(training.dir, "live.jsonl").length === 0) await sleep(20);
    await run.goto(`${server.url}/ui/#/run/${name}`);
    await live.goto(`${server.url}/ui/#/live/${name}?steps=all`);
    await Promise.all([note(run, ".progress-line", "text"), note(live, ".live-line", "id")]);
    const since = Date.now();
    const ended = [...(await written)]
      .filter(([, at]) => at > since)
      .map(([step, at]): Happened => ({ what: `step ${step}`, at, isNamed: (text) => stepIn(text) >= step }));
    const said = linesOf<{ type: string; id: string; at: number }>(training.dir, "live.jsonl")
      .filter(({ type, at }) => type === "conversation" && at > since)
      .map(({ id, at }): Happened => {
        const end = `${JSON.stringify(id)}]`;
        return { what: `conversation ${id}`, at, isNamed: (own) => own.endsWith(end) };
      });
    const [step, conversation] = [await lateness(run, ended), await lateness(live, said)];
    const killed = Date.now();
    training.child.kill("SIGKILL");
    await run.locator(".run-head [data-state=lost]").waitFor({ timeout: mostMs });
    const lostMs = Date.now() - killed;
    await Promise.all([run, live].map((page) => page.context().close()));
    return { step, conversation, lostMs };
  } finally {
    await server.end();
  }
}

/** Waits until all of it was on the page: how late it was is what is measured, so it may not end the measurement. */
async function lateness(page: Page, happened: readonly Happened[]): Promise<Live["step"]> {
  const began = Date.now();
  for (;;) {
    const seen = Object.entries(await seenOn(page));
    const late = happened.map(({ at, isNamed }) => {
      const times = seen.filter(([name]) => isNamed(name)).map(([, first]) => first);
      return times.length === 0 ? undefined : Math.min(...times) - at;
    });
    const missing = happened.filter((_, i) => late[i] === undefined).map(({ what }) => what);
    if (missing.length === 0) {
      const all = late as number[];
      return { median: median(all), longest: Math.max(...all), count: all.length };
    }
    if (Date.now() - began > mostMs) throw new Error(`The page did not show: ${missing.join(", ")}.`);
    await sleep(200);
  }
}

const stepIn = (text: string) => Number(/step ([\d,\s]+) of/.exec(text)?.[1]?.replace(/\D/g, "") ?? -1);

/** When each step's line was on the disk. */
async function watchSteps(dir: string, steps: number): Promise<Map<number, number>> {
  const at = new Map<number, number>();
  while (at.size < steps) {
    for (const { step } of linesOf<{ step: number }>(dir, "metrics.jsonl")) if (!at.has(step)) at.set(step, Date.now());
    await sleep(10);
  }
  return at;
}

async function note(page: Page, selector: string, by: "text" | "id"): Promise<void> {
  await page.locator(selector).first().waitFor();
  await page.evaluate(
    (how) => {
      const seen: Record<string, number> = {};
      Object.assign(globalThis, { seen });
      const look = () => {
        for (const one of document.querySelectorAll(how.selector)) {
          const name = how.by === "id" ? one.id : (one.textContent ?? "");
          seen[name] ??= Date.now();
        }
      };
      new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
      look();
    },
    { selector, by },
  );
}

function seenOn(page: Page): Promise<Seen> {
  return page.evaluate(() => (globalThis as unknown as { seen: Seen }).seen);
}
