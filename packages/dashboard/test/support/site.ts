/** A dashboard of some folders, and pages that look at it. Whatever a page should never do is noted: see `faults`. */
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import {
  createDashboard,
  type Dashboard,
  type DashboardOptions,
} from "../../../stateset-agents/src/dashboard/create-dashboard.ts";
import { launch } from "./chromium.ts";

export interface Site {
  url: string;
  dashboard: Dashboard;
  browser: Browser;
  /** A page at a place such as "#/run/demo", signed in. */
  open(place: string, options?: BrowserContextOptions): Promise<Page>;
  /** Errors, refused requests, violations of the policy, requests to elsewhere: of all pages so far. */
  faults: string[];
  close(): Promise<void>;
}

/** `browser`: one that is there already, and stays when the site is closed. */
export async function openSite(options: DashboardOptions & { port?: number; browser?: Browser }): Promise<Site> {
  const { port = 0, browser: given, ...own } = options;
  const [browser, dashboard] = await Promise.all([given ?? launch(), createDashboard(own)]);
  const { url, link } = await dashboard.listen({ port });
  const faults: string[] = [];
  const first = await browser.newContext();
  await (await first.newPage()).goto(link);
  const storageState = await first.storageState();
  await first.close();
  const contexts: BrowserContext[] = [];
  return {
    ...{ url, dashboard, browser, faults },
    async open(place, settings = {}) {
      const context = await browser.newContext({ storageState, viewport: { width: 1280, height: 900 }, ...settings });
      contexts.push(context);
      const page = await context.newPage();
      watch(page, url, faults);
      await page.goto(`${url}/ui/${place}`);
      return page;
    },
    async close() {
      await Promise.all(contexts.map((context) => context.close()));
      if (!given) await browser.close();
      await dashboard.close();
    },
  };
}

const said = /status of \d+|ERR_INTERNET_DISCONNECTED/;

function watch(page: Page, url: string, faults: string[]): void {
  page.on("pageerror", (error) => void faults.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // What the server refused, or could not be asked, is shown on the page; the browser repeats it on its console.
    if (message.type() === "error" && !said.test(message.text())) faults.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(`${url}/`) && !request.url().startsWith("blob:"))
      faults.push(`request: ${request.url()}`);
    if (request.url().includes("csp-report")) faults.push(`policy: ${request.postData()}`);
  });
}
