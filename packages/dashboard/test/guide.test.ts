/**
 * The story of docs/guides/dashboard.md, in a browser, on the runs that a reader makes: with the guide's own files and commands.
 * What it says must be on the page. `npm run pictures:dashboard` also takes its pictures here.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readTrajectories } from "../../stateset-agents/src/run/trajectories.ts";
import { temporaryFolder } from "../../stateset-agents/test/temporary-folder.ts";
import { chromiumPath } from "./support/chromium.ts";
import { trainings, writeGuideFiles } from "./support/guide.ts";
import { lines, placeOf } from "./support/look.ts";
import { command } from "./support/make-runs.ts";
import { picture, record, scale, size, takesPictures } from "./support/pictures.ts";
import { openSite, type Site } from "./support/site.ts";

type Metrics = { step: number } & Record<string, number>;
interface Happened {
  step: number;
  type: string;
  kind?: string;
  set?: string;
  parts?: Record<string, number>;
}

describe.skipIf(!chromiumPath)("the guide to the dashboard", () => {
  const folder = temporaryFolder();
  const runs = `${folder}/runs`;
  let site: Site;
  const metrics = (run: string) => lines<Metrics>(`${runs}/${run}/metrics.jsonl`).filter(({ step }) => step > 0);
  const events = (run: string) => lines<Happened>(`${runs}/${run}/events.jsonl`);
  const verdict = () => events("kind").find(({ kind }) => kind === "reward-hacking")!;
  /** Before the verdict, the step whose replies to one question were rewarded most unlike. */
  const learning = () =>
    metrics("kind")
      .filter(({ step }) => step < verdict().step)
      .reduce((most, one) => (one.groupStd! > most.groupStd! ? one : most)).step;
  const open = (place: string): Promise<Page> => site.open(place, { viewport: size, deviceScaleFactor: scale });

  beforeAll(async () => {
    writeGuideFiles(folder);
    expect(trainings.map((args) => args.at(-1))).toEqual(["kind", "mended"]);
    for (const args of trainings) await command(folder, args);
    if (takesPictures) await moreRuns(folder);
    site = await openSite({ folders: [runs], cacheDir: `${folder}/cache` });
  }, 600_000);
  afterAll(() => site?.close());

  it("shows a reward that went up, in the list of runs and on its own page", async () => {
    const reward = metrics("kind").map((one) => one.reward!);
    expect(reward[0]).toBeLessThan(0.3);
    expect(reward.at(-1)).toBeGreaterThan(0.9);
    const page = await open("#/runs");
    await page.getByText("mended", { exact: true }).first().waitFor();
    await picture(page, "runs", 440);
    await page.goto(`${site.url}/ui/#/run/kind`);
    await page.locator(".chart .u-over").first().waitFor();
    const noticed = page.locator(".happenings li", { hasText: "reward hacking" });
    await expect.poll(() => noticed.textContent()).toContain("the policy may be gaming the reward");
    await picture(page, "run", 800);
    await noticed.getByRole("link", { name: `Conversations of step ${verdict().step}` }).click();
    await expect.poll(() => placeOf(page)).toBe(`#/run/kind/step/${verdict().step}`);
    const said = page.getByTestId("conversation").first();
    expect((await said.textContent())!.match(/thank|please|sorry|happy to help/gi)!.length).toBeGreaterThan(2);
    await page.close();
  });

  it("shows another measure that fell on held-out questions", async () => {
    const [before, after] = events("kind").filter(({ type, set }) => type === "evaluation" && set === "report");
    expect(after!.parts!.helpful!).toBeLessThan(before!.parts!.helpful! / 2);
    const page = await open("#/evaluation/kind");
    const helpful = page.locator("tr", { hasText: "helpful" }).first();
    await helpful.waitFor();
    expect(await helpful.textContent()).toContain("−0.");
    await picture(page, "evaluation", 640);
    await page.close();
  });

  it("shows the replies of one question, why the best won, and the tokens that were pushed", async () => {
    const step = learning();
    const all = readTrajectories(`${runs}/kind`, step);
    const groups = [...new Set(all.map(({ group }) => group))];
    const range = (group: string) => {
      const scores = all.filter((one) => one.group === group).map(({ reward }) => reward!.score);
      return Math.max(...scores) - Math.min(...scores);
    };
    const widest = groups.reduce((most, one) => (range(one!) > range(most!) ? one : most))!;
    const page = await open(`#/run/kind/step/${step}`);
    const scenario = all.find(({ group }) => group === widest)!.scenarioId!;
    await page.getByTestId("step-group").filter({ hasText: scenario }).getByRole("link", { name: "Group" }).click();
    await page.locator(".beside-text mark").first().waitFor();
    const best = page.locator(".member-table tbody tr").first();
    const worst = page.locator(".member-table tbody tr").last();
    // What the worst of them said is made less likely.
    expect(await worst.textContent()).toMatch(/−\d/);
    expect(await best.textContent()).not.toMatch(/−\d/);
    await page.getByRole("region", { name: "Why this advantage" }).waitFor();
    await picture(page, "group", 900);

    await best.locator("th a").click();
    await page.locator("[data-token]").first().waitFor();
    const courtesies = page.locator("[data-token]").filter({ hasText: /Thank|Please|sorry|happy/i });
    expect(await courtesies.count()).toBeGreaterThan(2);
    await courtesies.last().hover();
    const shown = async (name: string) =>
      Number((await page.locator(`.token-panel [data-name="${name}"] dd`).textContent())!.replace("−", "-"));
    await expect.poll(() => shown("advantage")).toBeGreaterThan(0);
    const early = await shown("log-prob");
    await page.locator("[data-token]").first().focus();
    await courtesies.last().click();
    await page.getByRole("button", { name: "Log-prob" }).click();
    await picture(page, "trajectory", 720);

    // At the end one more thanks is what is expected.
    const end = metrics("kind").at(-1)!.step;
    await page.goto(`${site.url}/ui/#/trajectory/${encodeURIComponent(`kind:${end}:0`)}?colour=logprob`);
    const thanks = page.locator("[data-token]").filter({ hasText: /Thank/ });
    await thanks.nth(1).waitFor();
    await thanks.last().hover();
    await expect.poll(() => shown("log-prob")).toBeGreaterThan(early);
    await page.close();
  });

  it("compares it with the run of the mended reward", async () => {
    const last = (run: string) => metrics(run).at(-1)!["part/helpful"]!;
    expect(last("mended")).toBeGreaterThan(2 * last("kind"));
    const shown = takesPictures ? "kind,kind-1,kind-2,mended,mended-1,mended-2" : "kind,mended";
    const page = await open(`#/compare?runs=${encodeURIComponent(shown)}&metrics=reward,part%2Fhelpful&show=seeds`);
    await page.locator(".chart-title", { hasText: "part/helpful" }).waitFor();
    const settings = page.locator(".compare-settings tbody tr");
    await expect.poll(async () => (await settings.allInnerTexts()).join(" ")).toContain("reward.name");
    const pair = page.locator(".compare-pairs li", { hasText: "kind" }).filter({ hasText: "mended" }).first();
    await expect.poll(() => pair.textContent()).toContain("measured by different rewards");
    await picture(page, "compare", 800);
    await page.close();
    expect(site.faults).toEqual([]);
  });

  it.runIf(takesPictures)(
    "is recorded while a run trains",
    async () => {
      const small = { width: 1040, height: 640 };
      const page = await site.open("#/live", { viewport: small, colorScheme: "light" });
      const bin = fileURLToPath(new URL("../../stateset-agents/bin/stateset-agents.mjs", import.meta.url));
      const look = await open("#/live?order=groups&steps=all");
      // Small steps, so that there is more to see. More than are recorded: it is ended.
      const quick = ["watched", "--groups-per-step", "1", "--steps", "2000", "--set", "evaluation.every=0"];
      const training = spawn(process.execPath, [bin, ...trainings[0]!.slice(0, -1), ...quick], { cwd: folder });
      const ended = once(training, "exit");
      // It has begun, and no step has ended: there is something to see rise.
      await page.locator(".live-runs li").first().waitFor({ timeout: 120_000 });
      await record(page, "live", async () => {
        const held = holdWhereRewardsDiffer(look);
        await page.waitForTimeout(7000);
        await page.goto(`${site.url}/ui/#/run/watched`);
        await page.waitForTimeout(9000);
        await held;
      });
      await picture(look, "live", 640);
      training.kill("SIGKILL");
      await ended;
      await look.close();
      await page.close();
    },
    300_000,
  );
});

/** Once two whole groups are there whose replies were not all rewarded alike. */
async function holdWhereRewardsDiffer(page: Page): Promise<void> {
  const unlike = page.locator(".live-group-numbers", { hasText: /n = 8 · mean \S+ ± 0\.\d*[1-9]/ });
  await unlike.nth(1).waitFor({ timeout: 60_000 });
  await page.keyboard.press("Space");
}

/** For pictures that tell more: other seeds of both, and what somebody said of them. */
async function moreRuns(folder: string): Promise<void> {
  for (const seed of ["1", "2"])
    for (const args of trainings)
      await command(folder, [...args.slice(0, -1), `${args.at(-1)}-${seed}`, "--seed", seed]);
  await command(folder, ["runs", "tag", "kind", "hacked"]);
  await command(folder, ["runs", "tag", "mended", "keep"]);
}
