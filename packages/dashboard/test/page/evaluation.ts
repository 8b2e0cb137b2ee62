import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { number } from "../../src/view/parts/number.ts";
import type { Stage } from "../page.test.ts";

interface ScenarioLine {
  step: number;
  set: string;
  scenario: string;
  mean: number;
}

export function evaluation(stage: Stage): void {
  const scores = (run: string) =>
    readFileSync(`${stage.runs}/${run}/evaluations.jsonl`, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as ScenarioLine);

  it("shows each scenario before and after, as it was written, the worst change first", async () => {
    const page = await stage.site.open("#/evaluation/grpo");
    const lines = scores("grpo").filter(({ set }) => set === "report");
    const last = Math.max(...lines.map(({ step }) => step));
    const changes: number[] = [];
    await page.locator(".scenario").first().waitFor();
    for (const row of await page.locator(".scenario").all()) {
      const id = await row.locator(".scenario-name").textContent();
      const at = (step: number) => lines.findLast((line) => line.scenario === id && line.step === step)!.mean;
      const cells = await row.locator(".scenario-cell").allTextContents();
      expect(cells[0]).toContain(`before ${number(at(0), 3)}`);
      expect(cells[1]).toContain(`after ${number(at(last), 3)}`);
      changes.push(at(last) - at(0));
    }
    expect(changes.length).toBe(new Set(lines.map(({ scenario }) => scenario)).size);
    expect(changes).toEqual([...changes].sort((a, b) => a - b));
    // Half of eight scenarios.
    expect(await page.locator(".evaluation-verdict").textContent()).toMatch(
      /too few to tell: 4 scenarios \(it takes 6\)/,
    );
    await page.close();
  });

  it("orders, finds and opens scenarios by the keyboard alone, and the address remembers", async () => {
    const page = await stage.site.open("#/evaluation/grpo?set=selection");
    await page.locator(".scenario").first().waitFor();
    await page.keyboard.press("o");
    await expect.poll(() => page.url()).toContain("order=-change");
    for (const row of [0, 1]) {
      await page.keyboard.press("j");
      await page.locator(".scenario").nth(row).locator(".scenario-line:focus").waitFor();
    }
    await page.keyboard.press("Enter");
    await expect.poll(() => page.locator(".scenario-open").count()).toBe(1);
    const opened = await page.locator(".scenario-open .scenario-name").textContent();
    expect(page.url()).toContain(`open=${opened}`);
    await expect.poll(() => page.locator(".scenario-columns .conversations").count()).toBe(2);
    await expect.poll(() => page.locator(".conversation").count()).toBeGreaterThan(0);
    await page.getByRole("button", { name: "Read" }).first().click();
    await expect.poll(() => page.locator(".said-assistant").count()).toBeGreaterThan(0);
    expect(await page.getByRole("link", { name: "Tokens" }).first().getAttribute("href")).toMatch(
      /^#\/trajectory\/grpo%3Ae0%3A/,
    );
    await page.keyboard.press("Escape");
    await expect.poll(() => page.locator(".scenario-open").count()).toBe(0);
    await page.keyboard.press("s");
    await expect.poll(() => page.url()).toContain("set=report");
    await page.getByPlaceholder("Find a scenario").fill("nothing is called so");
    await expect.poll(() => page.locator(".scenario").count()).toBe(0);
    await page.close();
  });

  it.each([
    ["dpo", ["loss", "accuracy"]],
    ["sft", ["loss"]],
  ])("shows the numbers of held-out data over steps: %s", async (run, measured) => {
    const page = await stage.site.open(`#/evaluation/${run}`);
    const table = page.locator(".evaluation-parts");
    await table.waitFor();
    const names = await table.locator("tbody th").allTextContents();
    expect(names).toEqual(expect.arrayContaining(measured));
    expect(await page.locator(".chart").count()).toBe(names.length);
    await page.close();
  });

  it("says of a run that was not evaluated how to have it evaluated", async () => {
    const page = await stage.site.open("#/evaluation/proof");
    await page.getByText("This run was not evaluated").waitFor();
    await page.close();
  });

  it("says of a run that is not there that it is not", async () => {
    const page = await stage.site.open("#/evaluation/nowhere");
    await page.getByText('There is no run "nowhere".').waitFor();
    await page.close();
  });
}
