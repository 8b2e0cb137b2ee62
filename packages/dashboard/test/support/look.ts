/** Small things that many tests of the page do. */
import { readFileSync } from "node:fs";
import type { Download, Locator, Page } from "playwright-core";
import { expect } from "vitest";

/** The place of a page, for another one to open. */
export function placeOf(page: Page): string {
  const url = page.url();
  return url.slice(url.indexOf("#"));
}

export function query(page: Page): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(placeOf(page).split("?")[1]));
}

/** What a click saves. */
export async function saved(page: Page, button: Locator): Promise<{ name: string; bytes: Buffer }> {
  const [download] = await Promise.all([page.waitForEvent("download") as Promise<Download>, button.click()]);
  return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

/** Waits until a list of texts is what it should be. */
export function texts(of: Locator) {
  return expect.poll(async () => (await of.allInnerTexts()).map((text) => text.replace(/\s+/g, " ").trim()));
}

export function lines<T>(path: string): T[] {
  return readFileSync(path, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as T);
}

/** By how much the page scrolls sideways, and what sticks out of it and cannot be scrolled to in a part of its own. */
export function wide(page: Page): Promise<{ page: number; out: string[] }> {
  return page.evaluate(() => {
    const scrolls = (element: Element | null): boolean =>
      element !== null &&
      element !== document.body &&
      (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(element).overflowX) ||
        scrolls(element.parentElement));
    const out = [...document.querySelectorAll<HTMLElement>("header *, main *")].filter((one) => {
      const { right, left, width } = one.getBoundingClientRect();
      return width > 1 && (right > innerWidth + 1 || left < -1) && !scrolls(one);
    });
    return {
      page: document.documentElement.scrollWidth - innerWidth,
      out: out.slice(0, 5).map((one) => one.outerHTML.slice(0, 120)),
    };
  });
}
