import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import type { Stage } from "../page.test.ts";
import { lines, placeOf, query, texts } from "../support/look.ts";

interface Recorded {
  scenarioId: string;
  messages: { content: string }[];
  reward?: { score: number };
  failure?: object;
}

export function steps(stage: Stage): void {
  const recorded = (run: string, file: string) => lines<Recorded>(`${stage.runs}/${run}/trajectories/${file}.jsonl`);
  const rows = (page: Page) => page.getByTestId("conversation");
  const open = async (place: string) => {
    const page = await stage.site.open(place);
    await rows(page).first().waitFor();
    return page;
  };

  it("finds conversations by scenario, words and reward, and orders them", async () => {
    const page = await open("#/run/grpo/step/2");
    const all = recorded("grpo", "step-000002");
    await expect.poll(() => rows(page).count()).toBe(all.length);
    const { scenarioId } = all.at(-1)!;
    await page.getByLabel("Scenario").fill(scenarioId);
    await expect.poll(() => rows(page).count()).toBe(all.filter((one) => one.scenarioId === scenarioId).length);
    // As one types it.
    await page.getByLabel("Scenario").fill(scenarioId.slice(1).toUpperCase());
    await expect.poll(() => rows(page).count()).toBe(all.filter((one) => one.scenarioId === scenarioId).length);
    await page.getByLabel("Scenario").fill(scenarioId.slice(0, -1));
    await expect.poll(() => rows(page).count()).toBe(all.length);
    await page.getByLabel("Scenario").fill("");
    const best = Math.max(...all.map(({ reward }) => reward!.score));
    await page.getByLabel("Reward").fill(`>=${best}`);
    await expect.poll(() => rows(page).count()).toBe(all.filter(({ reward }) => reward!.score >= best).length);
    await page.getByLabel("Reward").fill("good");
    await page.getByRole("alert").waitFor();
    expect(await page.getByLabel("Reward").getAttribute("aria-invalid")).toBe("true");
    await page.getByLabel("Reward").fill("");
    const words = all[0]!.messages.at(-1)!.content.slice(3, 20);
    await page.getByLabel("What was said").fill(words);
    const having = all.filter(({ messages }) =>
      messages.some(({ content }) => content.toLowerCase().includes(words.toLowerCase())),
    );
    await expect.poll(() => rows(page).count()).toBe(having.length);
    await page.getByLabel("What was said").fill("");
    await page.getByLabel("Order").selectOption("-reward");
    await expect
      .poll(async () => Number((await page.locator(".step-reward").first().textContent())!.replace(/\D*/, "")))
      .toBe(Number(best.toPrecision(3)));
    await page.close();
  });

  it("goes from step to step, to all of them, and to those of evaluations", async () => {
    const page = await open("#/run/grpo/step/2");
    await page.getByRole("button", { name: "Next recorded step" }).click();
    await expect.poll(() => placeOf(page)).toBe("#/run/grpo/step/3");
    expect(await page.getByRole("button", { name: "Next recorded step" }).isDisabled()).toBe(true);
    await page.locator("body").press("[");
    await expect.poll(() => placeOf(page)).toBe("#/run/grpo/step/2");
    await page.getByLabel("From").selectOption("evaluation");
    await expect.poll(() => query(page).set).toBe("evaluation");
    await expect.poll(() => rows(page).count()).toBe(recorded("grpo", "evaluation-000002").length);
    await page.getByLabel("Step", { exact: true }).selectOption("all");
    await expect.poll(() => placeOf(page)).toBe("#/run/grpo/step/all");
    await page.getByText("24 conversations", { exact: true }).waitFor();
    await page.goto(`${stage.site.url}/ui/#/run/grpo/step/7`);
    await page.getByText("Step 7 was not recorded.").waitFor();
    await page.getByRole("link", { name: "Step 3, the nearest that was" }).click();
    await rows(page).first().waitFor();
    await page.close();
  });

  it("tells conversations that failed from others", async () => {
    const page = await open("#/run/failing/step/1?failed=only");
    const failed = recorded("failing", "step-000001").filter(({ failure }) => failure).length;
    expect(failed).toBeGreaterThan(0);
    await expect.poll(() => rows(page).count()).toBe(failed);
    expect(await rows(page).first().textContent()).toContain("the judge is gone");
    await rows(page).first().click();
    await page.locator(".trajectory-facts .wrong", { hasText: "The reward threw: the judge is gone" }).waitFor();
    await page.close();
  });

  it("walks by keys: j, k, Enter, g", async () => {
    const page = await open("#/run/grpo/step/2");
    for (const [key, row] of [
      ["j", "grpo:2:0"],
      ["j", "grpo:2:1"],
      ["k", "grpo:2:0"],
    ] as const) {
      await page.locator("body").press(key);
      await expect.poll(() => query(page).row).toBe(row);
      // Enter opens what has the focus, which follows in the frame after.
      await page.locator(`[data-row="${row}"]:focus`).waitFor();
    }
    await page.locator("body").press("Enter");
    await expect.poll(() => placeOf(page)).toMatch(/^#\/trajectory\/grpo%3A2%3A0/);
    await page.goBack();
    await rows(page).first().waitFor();
    await page.locator("body").press("g");
    await expect.poll(() => placeOf(page)).toMatch(/^#\/group\/grpo%3A2%3As2-g0/);
    await page.goBack();
    await rows(page).first().waitFor();
    await texts(page.locator(".step-group .foreign")).toEqual(
      ["ask-0", "ask-1"].map(() => expect.stringMatching(/^ask-\d$/)),
    );
    await page.close();
  });
}
