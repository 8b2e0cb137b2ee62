import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { afterAll, expect, it } from "vitest";
import { stepName } from "../../../stateset-agents/src/run/layout.ts";
import { readStatus } from "../../../stateset-agents/src/run/status.ts";
import { chatModel } from "../../../stateset-agents/test/cli.ts";
import { type SpawnedCli, spawnCli, tsx } from "../../../stateset-agents/test/spawn-cli.ts";
import { temporaryFolder } from "../../../stateset-agents/test/temporary-folder.ts";
import type { Stage } from "../page.test.ts";
import { writeProject } from "../support/make-runs.ts";
import { openSite, type Site } from "../support/site.ts";

const main = fileURLToPath(new URL("../../../stateset-agents/src/cli/main.ts", import.meta.url));

/** One run through all that may happen to it, watched on one page from beginning to end. */
export function trainer(stage: Stage): void {
  let site: Site | undefined;
  let training: SpawnedCli | undefined;
  let run = "";
  afterAll(async () => {
    training?.child.kill("SIGKILL");
    // What the page started outlives a test that failed before it stopped it.
    const status = run === "" ? undefined : readStatus(run);
    if (status?.state === "running") process.kill(status.pid, "SIGKILL");
    await site?.close();
  });

  it("follows a run as it trains, is killed, is resumed from its checkpoint, and is stopped", async () => {
    const folder = temporaryFolder();
    writeProject(folder);
    run = `${folder}/runs/watched`;
    site = await openSite({
      ...{ folders: [`${folder}/runs`], cacheDir: `${folder}/cache`, browser: stage.site.browser },
      resumeCommand: (dir) => ({
        file: process.execPath,
        args: ["--import", tsx, main, "train", "--resume", dir],
        cwd: folder,
        shown: `train --resume ${dir}`,
      }),
    });
    const page = await site.open("#/runs");
    await page.getByTestId("empty").waitFor();
    const set = ["checkpoint.every=10", "evaluation.every=0", "trajectories.every=1"].flatMap((one) => ["--set", one]);
    const args = [
      "train",
      "--name",
      "watched",
      "--model",
      await chatModel(1, 256),
      "--steps",
      "5000",
      "--groups-per-step",
      "2",
      "--group-size",
      "2",
      "--max-tokens",
      "8",
      "--json",
      ...set,
    ];
    training = spawnCli(args, folder);
    await page.locator('[data-run="watched"]').click();
    await page.locator(".run-head [data-state=running]").waitFor();
    // A step is seen soon after it ended; how soon is printed, and not a matter of this test.
    const steps = () => lastStep(run);
    await expect.poll(steps).toBeGreaterThan(0);
    const [step, from] = [steps(), performance.now()];
    await expect.poll(() => shownStep(page), { interval: 20 }).toBeGreaterThanOrEqual(step);
    console.log(`step ${step} was on the page ${Math.round(performance.now() - from)} ms after it was on the disk`);

    await expect.poll(steps).toBeGreaterThan(12);
    training.child.kill("SIGKILL");
    await training.exit;
    await page.locator(".run-head [data-state=lost]").waitFor();
    const reached = steps();
    await expect.poll(() => shownStep(page)).toBe(reached);

    await page.getByRole("button", { name: "Resume" }).click();
    const dialog = page.getByRole("dialog");
    expect(await dialog.textContent()).toContain(`train --resume ${run}`);
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Resume" }).click();
    await dialog.getByRole("button", { name: "Resume" }).click();
    await page.locator(".run-head [data-state=running]").waitFor();
    await expect.poll(() => shownStep(page)).toBeGreaterThan(reached);

    // Held still, so that it is seen stopping, and asked again before it could note that it was asked.
    const { pid } = readStatus(run)!;
    process.kill(pid, "SIGSTOP");
    await page.getByRole("button", { name: "Stop" }).click();
    await dialog.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("button", { name: "Stopping…", disabled: true }).waitFor();
    const again = await page.evaluate(async () => {
      const headers = { "content-type": "application/json", "x-stateset-ui": "1" };
      const answer = await fetch("api/runs/watched/stop", { method: "POST", headers, body: "{}" });
      return `${answer.status} ${await answer.text()}`;
    });
    expect(again).toMatch(/^409 .*It is stopping/);
    process.kill(pid, "SIGCONT");
    await page.locator(".run-head [data-state=interrupted]").waitFor();
    expect(readStatus(run)).not.toHaveProperty("stopping");
    // What the dialog promised: a checkpoint of the last step, though no tenth one.
    expect(readFileSync(`${run}/checkpoints/last`, "utf8").trim()).toBe(stepName(steps()));
    // Nothing is missing on the curve and nothing is there twice.
    const written = readFileSync(`${run}/metrics.jsonl`, "utf8")
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { step: number }).step);
    expect(written.at(-1)).toBe(steps());
    const table = page.getByTestId("chart-Reward");
    await table.getByRole("button", { name: "Table" }).click();
    await expect.poll(async () => (await table.locator("tbody th").allTextContents()).map(Number).at(-1)).toBe(steps());
    const shown = (await table.locator("tbody th").allTextContents()).map(Number);
    expect(new Set(shown).size).toBe(shown.length);
    expect(site.faults).toEqual([]);
    await page.close();
  }, 180_000);
}

/** Whole lines alone: the last may be on its way. */
function lastStep(run: string): number {
  try {
    const lines = readFileSync(`${run}/metrics.jsonl`, "utf8").split("\n").slice(0, -1);
    return (JSON.parse(lines.at(-1)!) as { step: number }).step;
  } catch {
    return 0;
  }
}

async function shownStep(page: Page): Promise<number> {
  const text = (await page.locator(".progress-line").textContent()) ?? "";
  return Number(/step ([\d, ]+) of/.exec(text)?.[1]?.replace(/\D/g, "") ?? 0);
}
