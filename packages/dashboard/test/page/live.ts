import { cpSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { expect, it } from "vitest";
import { createDashboard } from "../../../stateset-agents/src/dashboard/create-dashboard.ts";
import { temporaryFolder } from "../../../stateset-agents/test/temporary-folder.ts";
import type { Stage } from "../page.test.ts";
import { lines, query } from "../support/look.ts";
import { command, writeProject } from "../support/make-runs.ts";
import { openSite } from "../support/site.ts";

interface Recorded {
  failure?: object;
}

export function live(stage: Stage): void {
  it("shows what is said and rewarded while a run trains, each once, also when the server was ended and started again", async () => {
    const folder = temporaryFolder();
    writeProject(folder);
    const runs = `${folder}/runs`;
    mkdirSync(runs);
    const options = { folders: [runs], cacheDir: `${folder}/cache` };
    const site = await openSite(options);
    const page = await site.open("#/live?steps=all");
    await page.getByText("No run is training").waitFor();

    const training = ["--steps", "8", "--groups-per-step", "2", "--group-size", "4", "--max-tokens", "24"];
    const run = command(folder, ["train", "--name", "watched", ...training, "--set", "evaluation.every=0"]);
    await page.locator(".live-line").first().waitFor();
    const port = Number(new URL(site.url).port);
    await site.dashboard.close();
    await expect.poll(() => page.locator(".connection").textContent()).toContain("does not answer");
    const dashboard = await createDashboard(options);
    await dashboard.listen({ port });
    await run;

    const said = readFileSync(`${runs}/watched/live.jsonl`, "utf8").trim().split("\n");
    const ended = said.map((line) => JSON.parse(line) as { type: string; id: string });
    const ids = new Set(ended.filter(({ type }) => type === "conversation").map(({ id }) => id));
    expect(ids.size).toBe(8 * 2 * 4);
    await page.getByText(`${ids.size} conversations`, { exact: true }).waitFor();
    // All of them were rewarded.
    await page.goto(`${site.url}/ui/#/live/watched?steps=all`);
    await page.locator(".live-line").first().waitFor();
    expect(await page.locator(".live-facts").textContent()).toMatch(/waiting for a reward\s*0/);
    await page.close();
    await dashboard.close();
    await site.browser.close();
  });

  it("groups, filters, opens and pauses by the keyboard", async () => {
    const page = await stage.site.open("#/live/grpo");
    await page.locator(".live-line").first().waitFor();
    expect(await page.locator(".live-line").count()).toBe(8);
    for (const paused of ["true", "false"]) {
      await page.keyboard.press("Space");
      await expect.poll(() => page.locator(".live-pause").getAttribute("aria-pressed")).toBe(paused);
    }
    await page.keyboard.press("g");
    await expect.poll(() => page.locator(".live-group").count()).toBe(2);
    expect(await page.locator(".live-group-numbers").first().textContent()).toMatch(
      /^n = 4 · mean [\d.]+ ± [\d.e-]+ · /,
    );
    await page.keyboard.press("j");
    await page.locator(".live-line:focus").waitFor();
    await page.keyboard.press("Enter");
    await expect.poll(() => page.locator(".live-body .said-assistant").count()).toBe(1);
    await page.keyboard.press("Escape");
    await expect.poll(() => page.locator(".live-body").count()).toBe(0);
    await page.keyboard.press("f");
    await page.getByText("None of them is like that.").waitFor();
    await page.close();
  });

  it("shows those of a scenario, of all steps, that failed, in the order that is chosen, as the address says", async () => {
    const page = await stage.site.open("#/live/grpo");
    const shown = page.locator(".live-line");
    await shown.first().waitFor();
    const said = lines<{ type: string; scenarioId: string; step: number }>(`${stage.runs}/grpo/live.jsonl`);
    const all = said.filter(({ type }) => type === "conversation");
    const last = Math.max(...all.map(({ step }) => step));
    const scenario = all.find(({ step }) => step === last)!.scenarioId;
    const of = all.filter((one) => one.scenarioId === scenario);
    await page.getByLabel("Scenario").selectOption(`=${scenario}`);
    await expect.poll(() => shown.count()).toBe(of.filter(({ step }) => step === last).length);
    await page.getByLabel("all steps").check();
    await page.getByText(`${of.length} conversations`, { exact: true }).waitFor();
    await page.getByLabel("Order").selectOption("groups");
    await expect.poll(() => page.locator(".live-group").count()).toBe(new Set(of.map(({ step }) => step)).size);
    await page.getByLabel("failed only").check();
    await page.getByText("None of them is like that.").waitFor();
    expect(query(page)).toEqual({ scenario, steps: "all", order: "groups", failed: "only" });
    await page.goto(`${stage.site.url}/ui/#/live/failing?steps=all&failed=only`);
    const failed = lines<Recorded>(`${stage.runs}/failing/trajectories/step-000001.jsonl`).filter(
      ({ failure }) => failure,
    );
    await expect.poll(() => shown.count()).toBeGreaterThanOrEqual(failed.length);
    for (const text of await shown.allTextContents()) expect(text).toContain("the judge is gone");
    await page.close();
  });

  it("names a run that vanishes while it is watched", async () => {
    const gone = `${stage.runs}/vanishes`;
    const page = await stage.site.open("#/runs");
    await page.getByTestId("run-row").first().waitFor();
    // Without its weights.
    cpSync(`${stage.runs}/grpo`, gone, { recursive: true, filter: (path) => !/\/(checkpoints|final)$/.test(path) });
    await page.locator('[data-run="vanishes"]').waitFor();
    await page.goto(`${stage.site.url}/ui/#/live/vanishes`);
    await page.locator(".live-line").first().waitFor();
    rmSync(gone, { recursive: true });
    await page.getByText("No longer there: vanishes").waitFor();
    await page.close();
  });
}
