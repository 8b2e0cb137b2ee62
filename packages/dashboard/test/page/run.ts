import { readdirSync } from "node:fs";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { number } from "../../src/view/parts/number.ts";
import type { Stage } from "../page.test.ts";
import { lines, placeOf, query, saved, texts } from "../support/look.ts";

type Metrics = { step: number } & Record<string, number>;

export function run(stage: Stage): void {
  const metrics = (name: string) =>
    lines<Metrics>(`${stage.runs}/${name}/metrics.jsonl`).filter(({ reward }) => reward !== undefined);
  const chart = (page: Page, title: string) => page.getByTestId(`chart-${title}`);
  const open = async (place: string) => {
    const page = await stage.site.open(place);
    await page.locator(".chart .u-over").first().waitFor();
    return page;
  };

  it("draws over steps, time or tokens, smoothed or not, on a logarithmic scale or not, as the address says", async () => {
    const page = await open("#/run/grpo");
    await page.getByRole("button", { name: "Time" }).click();
    await expect.poll(() => query(page).x).toBe("time");
    await page.getByRole("button", { name: "Tokens", exact: true }).click();
    await page.getByLabel("Smoothing").fill("0.5");
    await page.getByLabel("Log scale").check();
    await expect.poll(() => query(page)).toEqual({ x: "tokens", smooth: "0.5", log: "1" });
    await chart(page, "Reward").getByRole("button", { name: "Table" }).click();
    expect(await chart(page, "Reward").locator("thead th").first().textContent()).toBe("tokens");
    const again = await open(placeOf(page));
    expect(await again.locator(".smooth-value").textContent()).toBe("0.50");
    expect(await again.getByLabel("Log scale").isChecked()).toBe(true);
    expect(await again.getByRole("button", { name: "Tokens", exact: true }).getAttribute("aria-pressed")).toBe("true");
    await again.locator("body").press("l");
    await expect.poll(() => query(again).log).toBeUndefined();
    await again.goto(`${stage.site.url}/ui/#/run/grpo`);
    await expect.poll(() => again.locator(".smooth-value").textContent()).toBe("0.00");
    expect(await again.getByRole("button", { name: "Steps", exact: true }).getAttribute("aria-pressed")).toBe("true");
    await again.close();
    await page.close();
  });

  it("zooms into what is dragged over, keeps that in the address, and shows all again", async () => {
    const page = await open("#/run/grpo");
    const box = (await chart(page, "Reward").locator(".u-over").boundingBox())!;
    const [y, x] = [box.y + box.height / 2, (share: number) => box.x + box.width * share];
    await page.mouse.move(x(0.25), y);
    await page.mouse.down();
    await page.mouse.move(x(0.75), y, { steps: 4 });
    await page.mouse.up();
    await expect.poll(() => Number(query(page).from)).toBeCloseTo(0.75, 1);
    expect(Number(query(page).to)).toBeCloseTo(2.25, 1);
    const again = await open(placeOf(page));
    await again.getByRole("button", { name: "Show all of it" }).click();
    await expect.poll(() => query(again)).toEqual({});
    await again.close();
    await page.locator("body").press("0");
    await expect.poll(() => query(page)).toEqual({});
    // By keys: the cursor along the curve, and in and out around it.
    await chart(page, "Reward").locator(".chart-box").focus();
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("+");
    await expect.poll(() => query(page).from).toBeDefined();
    await page.close();
  });

  it("points at the same step in all of its charts", async () => {
    const page = await open("#/run/grpo");
    const at = (title: string) => chart(page, title).locator(".legend-x").textContent();
    const others = await page.locator(".chart .legend-x").count();
    expect(others).toBeGreaterThan(3);
    const plot = chart(page, "Reward").locator(".u-over");
    const { width } = (await plot.boundingBox())!;
    // Steps 0 to 3.
    await plot.hover({ position: { x: (width * 2) / 3, y: 40 } });
    await texts(page.locator(".chart .legend-x")).toEqual(Array(others).fill("step 2"));
    await page.mouse.move(0, 0);
    await expect.poll(() => at("Reward")).toBe("last");
    await page.close();
  });

  it("opens the demo's run and what it said", async () => {
    const demo = readdirSync(stage.runs).find((name) => name.startsWith("demo"))!;
    const page = await open(`#/run/${demo}`);
    await page.locator(".run-head [data-state=finished]").waitFor();
    await page.getByRole("link", { name: "Conversations", exact: true }).click();
    const said = lines<{ messages: { content: string }[] }>(
      `${stage.runs}/${demo}/trajectories/${readdirSync(`${stage.runs}/${demo}/trajectories`).findLast((name) => /^step-\d+\.jsonl$/.test(name))!}`,
    );
    const conversations = page.getByTestId("conversation");
    await expect.poll(() => conversations.count()).toBe(said.length);
    await page.goto(`${stage.site.url}/ui/#/evaluation/${demo}`);
    // The demo asks its questions before and after itself: they are not the run's.
    await page.getByText("This run was not evaluated").waitFor();
    await page.close();
  });

  it("shows the numbers of a curve as a table, a picture and CSV: those of metrics.jsonl", async () => {
    const page = await open("#/run/grpo");
    const reward = chart(page, "Reward");
    await reward.getByRole("button", { name: "Table" }).click();
    const cells = await reward.locator("tbody tr").allInnerTexts();
    for (const { step, reward: value } of metrics("grpo"))
      expect(
        cells.some((row) => row.startsWith(`${step}\t${number(value)}`)),
        `step ${step} in ${cells}`,
      ).toBe(true);
    const png = await saved(page, reward.getByRole("button", { name: "PNG" }));
    expect(png.name).toBe("Reward.png");
    expect(png.bytes.subarray(1, 4).toString()).toBe("PNG");
    expect(png.bytes.readUInt32BE(16)).toBeGreaterThan(500);
    const csv = await saved(page, page.getByRole("link", { name: "CSV" }));
    const [head = "", ...rows] = csv.bytes.toString().trim().split(/\r?\n/);
    const column = head.split(",").indexOf("reward");
    const values = rows.map((row) => row.split(",")).filter((row) => row[column] !== "");
    expect(values.map((row) => Number(row[column]))).toEqual(metrics("grpo").map((one) => one.reward));
    await page.close();
  });

  it("adds and removes curves of any metric", async () => {
    const page = await open("#/run/ppo");
    await page.getByText(/^Curves \(/).click();
    await page.getByLabel("Find a metric").fill("learning rate");
    await page.locator(".metric-picker li", { hasText: "valueLoss" }).waitFor({ state: "detached" });
    await page.getByLabel("Find a metric").fill("rewardMax");
    await page.locator(".metric-picker li input").check();
    await chart(page, "rewardMax").waitFor();
    expect(query(page).metrics).toContain("rewardMax");
    await page.getByLabel("Find a metric").fill("no such number");
    await page.getByText("The run writes no such number.").waitFor();
    await page.getByRole("button", { name: "The usual ones" }).click();
    await chart(page, "rewardMax").waitFor({ state: "detached" });
    await page.close();
  });

  it("says what was noticed in words, on the curve and beside it, and leads to conversations that show it", async () => {
    const page = await open("#/run/grpo");
    await page
      .locator(".happenings li", { hasText: "held-out scenarios have the text of one that is trained on" })
      .waitFor();
    await chart(page, "Reward").locator(".mark-list summary").click();
    await page.locator(".mark-list a").first().click();
    await expect.poll(() => placeOf(page)).toMatch(/^#\/run\/grpo\/step\/1/);
    await page.getByTestId("conversation").first().waitFor();
    await page.close();
  });

  it("shows the settings that are not the defaults, all of config.json, and the files", async () => {
    const page = await open("#/run/grpo");
    const settings = page.locator(".settings tbody tr");
    await expect
      .poll(() => settings.allInnerTexts())
      .toEqual(expect.arrayContaining([expect.stringMatching(/kl\.coefficient\t0\.05/)]));
    await page.getByText("Everything in config.json").click();
    await page.getByLabel("Find a setting").fill("maxTokens");
    await texts(page.locator(".config-tree li li .faint")).toContain("maxTokens");
    await page.getByLabel("Find a setting").fill("nothing is called so");
    await page.getByText("Nothing of it is called so.").waitFor();
    await page.getByText(/\d+ files, [\d.]+ MB/).click();
    await expect
      .poll(() => page.locator(".run-side .mono").allInnerTexts())
      .toEqual(expect.arrayContaining(["metrics.jsonl", "trajectories"]));
    expect(await page.locator(".run-side .chip", { hasText: "best" }).count()).toBe(1);
    await texts(page.locator(".split-list dt")).toEqual(["rollout", "update", "other"]);
    await page.close();
  });

  it("shows losses of a run that learns from data", async () => {
    const page = await open("#/run/dpo");
    await chart(page, "Loss").waitFor();
    await texts(chart(page, "Loss").locator(".legend-item .foreign")).toEqual(["loss", "held out"]);
    await page.close();
  });
}
