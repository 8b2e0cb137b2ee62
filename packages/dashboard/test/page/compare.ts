import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import type { Stage } from "../page.test.ts";
import { lines, query } from "../support/look.ts";

interface Evaluated {
  type: string;
  numbers: { loss: number };
}

export function compare(stage: Stage): void {
  it("shows settings that differ, and saves them as CSV", async () => {
    const page = await stage.site.open("#/compare?runs=grpo,grpo-seed2");
    const table = page.locator(".compare-settings");
    await table.waitFor();
    expect(await table.locator("tbody tr").allInnerTexts()).toEqual(["settings.seed\t0\t2"]);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "CSV" }).click(),
    ]);
    expect(readFileSync(await download.path(), "utf8")).toBe("setting,grpo,grpo-seed2\r\nsettings.seed,0,2\r\n");
    await page.close();
  });

  it("asks for the first curve while the view is being loaded, and for nothing twice", async () => {
    for (const place of ["?runs=grpo,ppo", "?runs=grpo,grpo-seed2,ppo&show=difference&metrics=entropy&x=time"]) {
      const page = await stage.site.open("#/runs");
      const asked: string[] = [];
      page.on("request", (request) => {
        const [, what] = /\/ui\/(?:api|assets)\/(compare[^?-]*)/.exec(request.url()) ?? [];
        if (what) asked.push(what);
      });
      await page.goto("about:blank");
      await page.goto(`${stage.site.url}/ui/#/compare${place}`);
      await page.locator(".chart-box canvas").waitFor();
      await page.locator(".compare-settings").waitFor();
      expect(asked.length).toBe(3);
      // The file of the view is asked for by then, and what it shows before it can have come.
      expect(asked).toEqual(expect.arrayContaining(["compare", "compare/series"]));
      await page.close();
    }
  });

  it("folds seeds into one curve, shows differences from a base, and keeps both in the address", async () => {
    const page = await stage.site.open("#/compare?runs=grpo,grpo-seed2,ppo");
    const names = () => page.locator(".legend-item .foreign").allTextContents();
    await expect.poll(names).toEqual(["grpo", "grpo-seed2", "ppo"]);
    await page.getByRole("button", { name: "over seeds" }).click();
    await expect.poll(names).toEqual(["grpo (2 seeds)", "ppo"]);
    await page.keyboard.press("d");
    await expect.poll(() => page.url()).toContain("show=difference");
    await page.getByLabel("Base").first().selectOption("ppo");
    await page.locator(".chart-title", { hasText: "reward, difference from ppo" }).waitFor();
    await page.getByText("No interval: both sides").waitFor();
    await page.getByLabel("Add a curve").selectOption("entropy");
    await expect.poll(() => page.locator(".chart").count()).toBe(2);
    const again = await stage.site.open(page.url().slice(page.url().indexOf("#")));
    await expect.poll(() => again.locator(".chart").count()).toBe(2);
    await again.locator(".chart-title", { hasText: "reward, difference from ppo" }).waitFor();
    await again.close();
    await page.locator(".chart", { hasText: "entropy" }).getByRole("button", { name: "Remove" }).click();
    await expect.poll(() => page.locator(".chart").count()).toBe(1);
    expect(query(page).metrics).toBe("reward");
    await page.close();
  });

  it("shows all again after a zoom, by its button and by its key", async () => {
    const place = "#/compare?runs=grpo,ppo&from=1&to=2";
    const page = await stage.site.open(place);
    await page.getByRole("button", { name: "Show all of it" }).click();
    await expect.poll(() => query(page)).toEqual({ runs: "grpo,ppo" });
    await page.getByRole("button", { name: "Show all of it" }).waitFor({ state: "detached" });
    await page.goto(`${stage.site.url}/ui/${place}`);
    await page.getByRole("button", { name: "Show all of it" }).waitFor();
    await page.keyboard.press("0");
    await expect.poll(() => query(page)).toEqual({ runs: "grpo,ppo" });
    await page.close();
  });

  it("keeps no zoom of one axis on another", async () => {
    const page = await stage.site.open("#/compare?runs=grpo,ppo&from=1&to=2");
    await page.getByRole("button", { name: "Time" }).click();
    await expect.poll(() => query(page)).toEqual({ runs: "grpo,ppo", x: "time" });
    await page.close();
  });

  it("says of each pair what the paired test says", async () => {
    const page = await stage.site.open("#/compare?runs=grpo,ppo");
    const pair = page.locator(".compare-pairs li");
    await pair.first().waitFor();
    // The same seed holds out the same four scenarios for the report.
    expect(await pair.allInnerTexts()).toEqual([expect.stringMatching(/too few to tell: 4 scenarios \(it takes 6\)/)]);
    expect(await page.locator(".compare-held-out tbody tr").count()).toBe(2);
    await page.close();
  });

  it("calls neither of two runs better that were measured by different rewards", async () => {
    const page = await stage.site.open("#/compare?runs=grpo,dapo");
    const pair = page.locator(".compare-pairs li");
    await pair.first().waitFor();
    expect(await pair.allInnerTexts()).toEqual([expect.stringMatching(/: measured by different rewards$/)]);
    expect(await page.locator(".compare-line-head").textContent()).toContain("measured by different rewards");
    expect(await page.locator(".compare-line .change-better, .compare-line .change-worse").count()).toBe(0);
    await page.close();
  });

  it("calls a loss better that fell, each way of learning on a scale of its own", async () => {
    const page = await stage.site.open("#/compare?runs=sft,dpo");
    const tables = page.locator(".compare-held-out");
    await expect.poll(() => tables.count()).toBe(2);
    for (const [i, run] of ["sft", "dpo"].entries()) {
      const losses = lines<Evaluated>(`${stage.runs}/${run}/events.jsonl`)
        .filter(({ type }) => type === "evaluation")
        .map(({ numbers }) => numbers.loss);
      expect(losses.at(-1)).toBeLessThan(losses[0]!);
      const table = tables.nth(i);
      expect(await table.locator("caption").textContent()).toBe(`loss of ${run}, on held-out data: lower is better`);
      expect(await table.locator(".dumbbell").getAttribute("class")).toContain("change-better");
    }
    await page.close();
  });

  it("shows the conversations of a scenario side by side, a column a run", async () => {
    const page = await stage.site.open("#/compare?runs=grpo,ppo");
    await page.locator("button.compare-line").first().click();
    const columns = page.locator(".side-columns .conversations");
    await expect.poll(() => columns.count()).toBe(2);
    for (const column of await columns.all())
      await expect.poll(() => column.locator(".conversation").count()).toBeGreaterThan(0);
    await page.keyboard.press("j");
    await expect.poll(() => page.locator("button.compare-line").nth(1).getAttribute("aria-pressed")).toBe("true");
    await page.getByRole("button", { name: "Close", exact: true }).click();
    await expect.poll(() => page.locator(".side-by-side").count()).toBe(0);
    await page.close();
  });

  it("takes runs in and out, and names one that is not there while the rest stays", async () => {
    const page = await stage.site.open("#/compare");
    await page.getByText("Choose runs to compare").waitFor();
    await page.keyboard.press("+");
    await page.getByLabel("Find runs to add").fill("grpo-seed2");
    await page.locator(".finder-run").first().waitFor();
    await page.getByLabel("Find runs to add").press("Enter");
    await expect.poll(() => page.url()).toContain("runs=grpo-seed2");
    await page.getByText("One run is shown.").waitFor();
    await page.goto(`${stage.site.url}/ui/#/compare?runs=grpo,nowhere,ppo`);
    await page.getByText("No longer there: nowhere.").waitFor();
    await page.locator(".chart").first().waitFor();
    await page.getByRole("button", { name: "Leave out", exact: true }).click();
    await expect.poll(() => page.url()).toMatch(/runs=grpo%2Cppo$/);
    await page.getByRole("button", { name: "Leave out ppo" }).click();
    await expect.poll(() => page.url()).toMatch(/runs=grpo$/);
    await page.goBack();
    await expect.poll(() => page.url()).toMatch(/runs=grpo%2Cppo$/);
    await page.close();
  });
}
