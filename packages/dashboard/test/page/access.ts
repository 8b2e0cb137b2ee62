import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type axeCore from "axe-core";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import type { Stage } from "../page.test.ts";
import { placeOf, wide } from "../support/look.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Every view, and what is there once it is drawn. */
const views = {
  "#/runs?group=algorithm": ".run-line a",
  "#/run/grpo": ".chart .u-over",
  "#/run/grpo/step/2": ".step-line",
  "#/group/grpo%3A2%3As2-g0": ".reply-tree",
  "#/group/dpo%3A2%3Apair-1": ".reply-tree",
  "#/trajectory/grpo%3A2%3A0?all=1&boundaries=1&token=30": ".token.chosen",
  "#/trajectory/proof%3A1%3A0": "[data-token]",
  "#/live/grpo?order=groups": ".live-line",
  "#/compare?runs=grpo,grpo-seed2,ppo": ".compare-settings",
  "#/evaluation/grpo": ".scenario",
} as const;

export function access(stage: Stage): void {
  const found = async (page: Page) => {
    // The policy of the page lets no script in but its own; the debugger's are not the page's.
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() =>
      (globalThis as unknown as { axe: typeof axeCore }).axe.run(document, { resultTypes: ["violations"] }),
    );
    return violations.map(
      ({ id, impact, nodes }) =>
        `${impact} ${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join("; ")}`,
    );
  };

  it.each(["light", "dark"] as const)("has no finding of axe that is serious in any view, %s", async (colorScheme) => {
    const page = await stage.site.open("#/runs", { colorScheme });
    const findings: string[] = [];
    for (const [place, drawn] of Object.entries(views)) {
      await page.goto(`${stage.site.url}/ui/${place}`);
      await page.locator(drawn).first().waitFor();
      findings.push(...(await found(page)).map((one) => `${place} ${one}`));
    }
    await page.locator("body").press("?");
    await page.getByRole("dialog").waitFor();
    findings.push(...(await found(page)).map((one) => `keys ${one}`));
    expect(findings.filter((one) => / (serious|critical) /.test(one))).toEqual([]);
    await page.close();
  });

  it("goes from the runs to a token and back by the keyboard alone", async () => {
    const page = await stage.site.open("#/runs?filter=grpo-seed");
    await page.getByTestId("run-row").first().waitFor();
    const press = (...keys: readonly string[]) =>
      keys.reduce((done, key) => done.then(() => page.keyboard.press(key)), Promise.resolve());
    const at = (pattern: RegExp) => expect.poll(() => placeOf(page)).toMatch(pattern);
    await press("j");
    await expect
      .poll(() => page.evaluate(() => (document.activeElement as HTMLElement).dataset.run))
      .toBe("grpo-seed2");
    await press("Enter");
    await at(/^#\/run\/grpo-seed2$/);
    await page.locator(".run-head").waitFor();
    await press("s");
    await at(/^#\/run\/grpo-seed2\/step\/3$/);
    await page.getByTestId("conversation").first().waitFor();
    await press("j", "g");
    await at(/^#\/group\/grpo-seed2%3A3%3A/);
    await page.locator(".member-table").waitFor();
    await press("j", "o");
    await at(/^#\/trajectory\/grpo-seed2%3A3%3A/);
    await page.locator("[data-token]").first().waitFor();
    // Tab leads into the text at some time, and the arrows along it.
    const onToken = () => page.evaluate(() => (document.activeElement as HTMLElement).dataset.token);
    for (let tries = 0; tries < 60 && (await onToken()) === undefined; tries++) await press("Tab");
    const first = Number(await onToken());
    await press("ArrowRight", "ArrowRight");
    await expect.poll(async () => Number(await onToken())).toBeGreaterThan(first + 1);
    await expect.poll(() => page.locator(".token-panel").getAttribute("data-shown")).toBe(await onToken());
    await press("g");
    await at(/^#\/group\//);
    await press("h");
    await at(/^#\/runs$/);
    await page.close();
  });

  it("leaves nothing that can be pressed out of the way of Tab, and shows where one is", async () => {
    const page = await stage.site.open("#/runs");
    for (const [place, drawn] of Object.entries(views)) {
      await page.goto(`${stage.site.url}/ui/${place}`);
      await page.locator(drawn).first().waitFor();
      const left = await page.evaluate(() =>
        [...document.querySelectorAll<HTMLElement>("a[href], button, input, select, summary")]
          .filter((one) => one.checkVisibility() && one.tabIndex !== 0)
          .map((one) => one.outerHTML.slice(0, 100)),
      );
      expect(left, place).toEqual([]);
      await page.locator("main").focus();
      await page.keyboard.press("Tab");
      const shown = await page.evaluate(() => {
        const { outlineStyle, boxShadow } = getComputedStyle(document.activeElement!);
        return document.activeElement !== document.body && (outlineStyle !== "none" || boxShadow !== "none");
      });
      expect(shown, place).toBe(true);
    }
    await page.close();
  });

  it("lists the keys of a view with ?, and closes the list again", async () => {
    const page = await stage.site.open("#/trajectory/grpo%3A2%3A0");
    await page.locator("[data-token]").first().waitFor();
    await page.locator("body").press("?");
    const keys = page.getByRole("dialog").locator("kbd");
    for (const key of ["?", "h", "j", "k", "g", "t", "[", "]", "a", "b"])
      expect(await keys.allTextContents()).toContain(key);
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Keys" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.goto(`${stage.site.url}/ui/#/run/grpo`);
    await page.locator(views["#/run/grpo"]).first().waitFor();
    await page.locator("body").press("?");
    await page.getByRole("dialog").waitFor();
    for (const key of ["0", "← →", "+ −"]) expect(await keys.allTextContents()).toContain(key);
    await page.close();
  });

  it("is light or dark as the system has it, or as was chosen, also after a reload", async () => {
    const page = await stage.site.open("#/run/grpo", { colorScheme: "dark" });
    await page.locator(".chart .u-over").first().waitFor();
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const dark = await ground();
    await page.getByRole("button", { name: "Colours: system" }).click();
    await page.getByRole("button", { name: "Colours: light" }).waitFor();
    const light = await ground();
    expect(light).not.toBe(dark);
    await page.reload();
    await page.getByRole("button", { name: "Colours: light" }).waitFor();
    expect(await ground()).toBe(light);
    await page.getByRole("button", { name: "Colours: light" }).click();
    await page.getByRole("button", { name: "Colours: dark" }).waitFor();
    expect(await ground()).toBe(dark);
    await page.close();
  });

  const narrow = {
    "390 pixels wide": { viewport: { width: 390, height: 844 } },
    // 1280 by 900 at 200%.
    "at 200%": { viewport: { width: 640, height: 450 }, deviceScaleFactor: 2 },
  };
  it.each(Object.keys(narrow) as (keyof typeof narrow)[])(
    "fits %s: nothing is cut off, and only parts scroll sideways",
    async (name) => {
      const page = await stage.site.open("#/runs", narrow[name]);
      for (const place of [
        "#/runs?group=algorithm",
        "#/run/grpo",
        "#/trajectory/grpo%3A2%3A0?all=1&boundaries=1&token=30",
      ] as const) {
        await page.goto(`${stage.site.url}/ui/${place}`);
        await page.locator(views[place]).first().waitFor();
        expect(await wide(page), place).toEqual({ page: 0, out: [] });
      }
      await page.close();
    },
  );
}
