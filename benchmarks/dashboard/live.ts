/** How soon the page shows what happens in a run that trains, and that its process was killed. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";
import { median } from "./numbers.ts";
import { freshPage, signIn } from "./pages.ts";
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

export async function measureLive(browser: Browser, folder: string, steps: number): Promise<Live> {
  const name = "watched";
  const server = await startDashboard(`${folder}/runs`, `${folder}/cache-live`);
  try {
    const cookies = await signIn(browser, server);
    const [run, live] = [await freshPage(browser, cookies), await freshPage(browser, cookies)];
    // More than will be done: it is killed.
    const training = startTraining(folder, name, 100 * steps);
    const written = watchSteps(training.dir, steps);
    while (linesOf(training.dir, "live.jsonl").length === 0) await sleep(20);
    await run.goto(`${server.url}/ui/#/run/${name}`);
    await live.goto(`${server.url}/ui/#/live/${name}?steps=all`);
    await Promise.all([note(run, ".progress-line", "text"), note(live, ".live-line", "id")]);
    const since = Date.now();
    const ended = await written;
    await sleep(2000);
    const shown = await Promise.all([seenOn(run), seenOn(live)]);
    const killed = Date.now();
    training.child.kill("SIGKILL");
    await run.locator(".run-head [data-state=lost]").waitFor({ timeout: 30_000 });
    const lostMs = Date.now() - killed;
    const said = linesOf<{ type: string; id: string; at: number }>(training.dir, "live.jsonl")
      .filter(({ type, at }) => type === "conversation" && at > since && at < killed - 2000)
      .map(({ id, at }) => ({ at, id }));
    await Promise.all([run, live].map((page) => page.context().close()));
    const stepsLate = [...ended]
      .filter(([, at]) => at > since)
      .map(([step, at]) => firstOf(shown[0], (text) => stepIn(text) >= step) - at);
    const late = said.map(({ id, at }) => firstOf(shown[1], (one) => one.endsWith(`${JSON.stringify(id)}]`)) - at);
    return { step: summary(stepsLate), conversation: summary(late), lostMs };
  } finally {
    await server.end();
  }
}

const summary = (late: readonly number[]) => ({ median: median(late), longest: Math.max(...late), count: late.length });

const stepIn = (text: string) => Number(/step ([\d,\s]+) of/.exec(text)?.[1]?.replace(/\D/g, "") ?? -1);

function firstOf(seen: Seen, fits: (name: string) => boolean): number {
  const times = Object.entries(seen).filter(([name]) => fits(name));
  if (times.length === 0) throw new Error("The page did not show what happened.");
  return Math.min(...times.map(([, at]) => at));
}

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
