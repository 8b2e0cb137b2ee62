import { mkdirSync, rmSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Stage } from "../page.test.ts";
import { bad, badShown, deletedKey, emptiedKey, hostileKey, last, writeHostileRuns } from "../support/hostile-run.ts";
import { texts, wide } from "../support/look.ts";
import { openSite, type Site } from "../support/site.ts";

const key = (...parts: readonly (string | number)[]) =>
  encodeURIComponent(parts.map((part) => encodeURIComponent(part)).join(":"));
const whole = "\ufffd";
/** As an address has it: half a character is none. */
const badId = bad.replace("\ud800", whole);

export function hostile(stage: Stage): void {
  let site: Site;
  const runs = () => `${stage.runs}/../hostile`;
  beforeAll(async () => {
    mkdirSync(runs());
    writeHostileRuns(runs());
    site = await openSite({ folders: [runs()], cacheDir: `${runs()}-cache`, browser: stage.site.browser });
  });
  afterAll(() => site?.close());

  /** Nothing of it ran, and it stands there as the text it is. */
  const harmless = async (page: Page) => {
    expect(await page.evaluate(() => (globalThis as { hacked?: unknown }).hacked)).toBeUndefined();
    expect(await page.locator("img, iframe, main script").count()).toBe(0);
    expect(await wide(page)).toEqual({ page: 0, out: [] });
    expect(site.faults).toEqual([]);
  };
  const run = encodeURIComponent(hostileKey);

  it.each([
    ["runs", "#/runs", ".run-line .foreign"],
    ["runs by group", "#/runs?group=algorithm", ".group-heading .foreign"],
    ["run", `#/run/${run}`, ".happenings .foreign"],
    ["steps", `#/run/${run}/step/1`, ".step-line .foreign"],
    ["evaluations of a step", `#/run/${run}/step/3?set=evaluation`, ".step-line .foreign"],
    ["group", `#/group/${key(hostileKey, 1, badId)}`, ".member-table .foreign"],
    ["trajectory", `#/trajectory/${key(hostileKey, 1, 0)}`, ".message .foreign"],
    ["trajectory that failed", `#/trajectory/${key(hostileKey, 1, 1)}`, ".trajectory-words .foreign"],
    ["trajectory of strange words", `#/trajectory/${key(hostileKey, 1, 2)}`, ".trajectory-words .foreign"],
    ["live", `#/live/${run}?steps=all`, ".live-line .foreign"],
    ["compare", `#/compare?runs=${run},newer`, ".compare-settings .foreign"],
    ["evaluation", `#/evaluation/${run}`, ".scenario .foreign"],
  ])("shows hostile text as text: %s", async (_, place, where) => {
    const page = await site.open(place);
    await page.locator(where).filter({ hasText: badShown }).first().waitFor();
    // What is folded is shown too.
    for (const fold of await page.locator("main [aria-expanded=false]").all())
      if (await fold.isVisible()) await fold.click();
    // Last: what opens over the rest covers it.
    for (const fold of await page.locator("main details:not([open]) > summary").all())
      if (await fold.isVisible()) await fold.click();
    await page.locator("main").filter({ hasText: badShown }).waitFor();
    // What turns text around or hides has a sign.
    const text = (await page.locator("main").textContent())!;
    for (const hidden of ["\u202e", "\u001b", "\u0000", "\u0007", "\u200b"]) expect(text).not.toContain(hidden);
    await harmless(page);
    await page.close();
  });

  it("folds reasoning, shows calls as trees, and says what a turn was rewarded with", async () => {
    const page = await site.open(`#/trajectory/${key(hostileKey, 1, 0)}?colour=text`);
    const replies = page.locator(".message-assistant");
    await replies.first().waitFor();
    const reasoning = replies.first().locator(".reasoning");
    const thought = reasoning.locator(".foreign").filter({ hasText: badShown });
    expect(await thought.first().isVisible()).toBe(false);
    await reasoning.locator("summary").click();
    await thought.first().waitFor();
    const calls = replies.first().locator(".call");
    expect(await calls.count()).toBe(2);
    // Arguments as fields and entries; those that are no JSON, as they are.
    await texts(calls.first().locator(".json-branch > summary .faint")).toEqual(["1 field", "2 entries", "1 field"]);
    await calls.nth(1).getByText("Its arguments are no JSON:").waitFor();
    await texts(page.locator(".message .chip-below")).toEqual(["reward −1"]);
    await page.close();
  });

  it("shows no failure of another filter, and asks by the new one at once", async () => {
    const page = await site.open("#/runs");
    const failing = { status: 500, json: { error: { message: "The disk is gone." } } };
    await page.route("**/trajectories?*cursor=*", (route) => route.fulfill(failing));
    await page.goto(`${site.url}/ui/#/run/${run}/step/2`);
    const shown = page.getByTestId("conversation");
    await shown.first().waitFor();
    const alert = page.getByRole("alert").filter({ hasText: "The disk is gone." });
    const toTheEnd = () => page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    await expect.poll(() => toTheEnd().then(() => alert.count())).toBe(1);
    await page.getByLabel("What was said").fill("Answer 7");
    await alert.waitFor({ state: "detached" });
    await page.unroute("**/trajectories?*cursor=*");
    await page.getByLabel("What was said").fill("");
    await shown.first().waitFor();
    expect(await alert.count()).toBe(0);
    await expect.poll(() => toTheEnd().then(() => page.getByText(/^1\d\d so far$/).count())).toBe(1);
    await page.close();
  });

  it("names what it could not read, and where", async () => {
    const page = await site.open("#/runs");
    const row = (name: string) => page.getByTestId("run-row").filter({ has: page.locator(`[data-run="${name}"]`) });
    await row("torn").getByText("⚠").waitFor();
    await row("newer").getByText("⚠").waitFor();
    // Two of one id are told apart by their folders.
    await texts(page.locator('[data-run^="twin"]')).toEqual(["⚠ 1 problem twin twin-a", "⚠ 1 problem twin twin-b"]);
    expect(await page.locator('[data-run="no-run"]').count()).toBe(0);
    const problems = page.getByRole("region", { name: "What could not be read" }).first();
    const said = async (name: string) => {
      await page.goto(`${site.url}/ui/#/run/${encodeURIComponent(name)}`);
      await page.locator(".run-head").waitFor();
      await problems.waitFor();
      return (await problems.textContent())!;
    };
    expect(await said("torn")).toMatch(/config\.json.*cannot be read/);
    expect(await said("newer")).toMatch(/another version \(99/);
    expect(await said(hostileKey)).toMatch(/metrics\.jsonl/);
    await page.goto(`${site.url}/ui/#/run/${run}/step/1`);
    await problems.filter({ hasText: "step-000001.jsonl" }).waitFor();
    await harmless(page);
    await page.close();
  });

  it("says where a chain began anew and why", async () => {
    const page = await site.open(`#/trajectory/${key(hostileKey, 1, 0)}`);
    await page.getByText(/A new chain of tokens begins with this reply \(2 of 2\): the chat template prints/).waitFor();
    await page.locator("body").press("a");
    await page.getByText("chain 2 of 2").waitFor();
    await page.close();
  });

  it("shows the beginning of a message of a megabyte, and the rest when asked", async () => {
    const page = await site.open(`#/trajectory/${key(hostileKey, 2, 0)}`);
    const message = page.locator(".message-user .long-text");
    await message.waitFor();
    expect((await message.textContent())!.length).toBeLessThan(20_000);
    await page.getByRole("button", { name: /^Show all: [\d,. ]+ more characters$/ }).click();
    await expect.poll(async () => (await message.textContent())!.length).toBeGreaterThan(999_000);
    await harmless(page);
    await page.close();
  });

  it("draws of a hundred thousand tokens those that are seen, and goes to any of them", async () => {
    const page = await site.open(`#/trajectory/${key(hostileKey, 2, 1)}?token=99990`);
    await page.locator('[data-token="99990"].chosen').waitFor();
    expect(await page.locator("[data-token]").count()).toBeLessThan(20_000);
    expect(await page.locator(".token-panel").getAttribute("data-shown")).toBe("99990");
    await page.close();
  });

  it("has the tokens that are seen in the order in which they are read, wherever one scrolls to", async () => {
    const page = await site.open(`#/trajectory/${key(hostileKey, 2, 1)}?all=1`);
    await page.locator('[data-token="0"]').click();
    const firsts: number[] = [];
    // Down by less than a window and by more, and back to where it began.
    for (const top of [0, 300, 900, 30_000, 29_500, 500, 0]) {
      const seen = await page.evaluate(drawnAt, top);
      firsts.push(seen[0]!.token);
      expect(seen.map(({ token }) => token)).toEqual(seen.map((_, i) => firsts.at(-1)! + i));
      expect(seen.filter(({ token, text }) => text !== `#${300 + (token % 3000)}`)).toEqual([]);
      // An element that was the chosen token's is not chosen as another's.
      expect(seen.filter(({ isMarked }) => isMarked).map(({ token }) => token)).toEqual(firsts.at(-1) === 0 ? [0] : []);
    }
    expect(firsts[3]).toBeGreaterThan(firsts[2]!);
    expect(firsts.at(-1)).toBe(0);
    await page.close();
  });

  it("reads a long list page by page as it is scrolled", async () => {
    const page = await site.open(`#/run/${run}/step/2?scenario=s1`);
    await page.getByTestId("conversation").first().waitFor();
    await page.goto(`${site.url}/ui/#/run/${run}/step/2`);
    await page.getByTestId("conversation").first().waitFor();
    const end = page.locator(".step-said", { hasText: `Answer ${last}` });
    await expect
      .poll(async () => {
        await page.mouse.wheel(0, 4000);
        return end.count();
      })
      .toBe(1);
    await page.close();
  });

  it("says of conversations too that the folder of their run was deleted, and goes on showing them", async () => {
    const conversation = `${emptiedKey}:1:0`;
    const shown = {
      [`#/run/${emptiedKey}/step/1`]: '[data-testid="conversation"]',
      [`#/trajectory/${encodeURIComponent(conversation)}`]: ".message-assistant",
      [`#/group/${encodeURIComponent(`${emptiedKey}:1:plain`)}`]: ".member-table",
    };
    const pages = await Promise.all(
      Object.entries(shown).map(async ([place, selector]) => {
        const page = await site.open(place);
        await page.locator(selector).first().waitFor();
        await page.locator(".connection-connected").waitFor();
        return { page, selector };
      }),
    );
    rmSync(`${runs()}/${emptiedKey}`, { recursive: true });
    for (const { page, selector } of pages) {
      await page.getByRole("alert").filter({ hasText: "The folder of this run is gone." }).waitFor();
      expect(await page.locator(selector).count()).toBeGreaterThan(0);
      await page.close();
    }
  });

  it("stays when the folder of the run that is open is deleted, and says so", async () => {
    const page = await site.open(`#/run/${deletedKey}`);
    await page.locator(".run-head").waitFor();
    await page.locator(".connection-connected").waitFor();
    rmSync(`${runs()}/${deletedKey}`, { recursive: true });
    await page.getByText("The folder of this run is gone.").waitFor();
    expect(await page.locator(".run-head").count()).toBe(1);
    await page.goto(`${site.url}/ui/#/runs`);
    await page.getByTestId("run-row").first().waitFor();
    expect(await page.locator(`[data-run="${deletedKey}"]`).count()).toBe(0);
    await page.goto(`${site.url}/ui/#/run/${deletedKey}`);
    await page.getByRole("alert").filter({ hasText: "There is no run" }).waitFor();
    expect(site.faults).toEqual([]);
    await page.close();
  });
}

/** Runs in the page: scrolls, and answers with the tokens that are drawn then. */
async function drawnAt(top: number): Promise<{ token: number; text: string; isMarked: boolean }[]> {
  scrollTo(0, top);
  for (let frames = 0; frames < 3; frames++) await new Promise((settle) => requestAnimationFrame(settle));
  return [...document.querySelectorAll<HTMLElement>("[data-token]")].map((one) => ({
    token: Number(one.dataset.token),
    text: one.textContent ?? "",
    isMarked: one.matches(".chosen, [aria-selected], [aria-describedby]"),
  }));
}
