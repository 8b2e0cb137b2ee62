import { cpSync, existsSync, readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import type { Stage } from "../page.test.ts";
import { placeOf, query, texts, wide } from "../support/look.ts";
import { openSite } from "../support/site.ts";

const names = (page: Page) => page.locator("[data-run] > .foreign");
const filter = (page: Page) => page.getByLabel("Filter", { exact: true });

export function runs(stage: Stage): void {
  const all = 9;
  const open = async (place = "#/runs") => {
    const page = await stage.site.open(place);
    await page.getByTestId("run-row").first().waitFor();
    return page;
  };

  it("filters by words and by comparisons, and shows in place what is wrong with a filter", async () => {
    const page = await open();
    await expect.poll(() => names(page).count()).toBe(all);
    await filter(page).fill("grpo-seed");
    await texts(names(page)).toEqual(["grpo-seed2"]);
    await filter(page).fill("algorithm = dapo | algorithm = dpo");
    await expect.poll(async () => (await names(page).allInnerTexts()).sort()).toEqual(["dapo", "dpo"]);
    await filter(page).fill("reward > 0.1 & seed = 2");
    await texts(names(page)).toEqual(["grpo-seed2"]);
    await filter(page).fill("reward > & seed = 2");
    const wrong = page.locator("#filter-wrong");
    await wrong.waitFor();
    expect(await wrong.locator("mark").textContent()).toBe("&");
    expect(await wrong.textContent()).toContain("column 10");
    expect(await filter(page).getAttribute("aria-invalid")).toBe("true");
    await filter(page).fill("no run is called like this");
    await page.getByText("No run fits the filter.").waitFor();
    await page.getByRole("button", { name: "Show all runs" }).click();
    await expect.poll(() => names(page).count()).toBe(all);
    await page.close();
  });

  it("sorts by a column both ways, groups by a setting, folds a group, and keeps all of it in the address", async () => {
    const page = await open();
    const header = page.getByRole("button", { name: /^Run( |$)/ });
    await header.click();
    await expect.poll(() => query(page).sort).toBe("-id");
    await expect.poll(async () => (await names(page).allInnerTexts())[0]).toBe("sft");
    await header.click();
    await expect.poll(async () => (await names(page).allInnerTexts())[0]).toBe("dapo");
    expect(await page.getByRole("columnheader", { name: "Run" }).getAttribute("aria-sort")).toBe("ascending");
    await page.getByLabel("Group by").selectOption("algorithm");
    const headings = page.locator(".group-heading strong");
    await texts(headings).toEqual(["dapo", "grpo", "dpo", "ppo", "sft"]);
    await page.locator(".group-heading", { hasText: "grpo" }).getByRole("button").click();
    await texts(names(page)).toEqual(["dapo", "dpo", "ppo", "sft"]);
    const again = await open(placeOf(page));
    await texts(headings).toEqual(["dapo", "grpo", "dpo", "ppo", "sft"]);
    await texts(names(again)).toEqual(["dapo", "dpo", "ppo", "sft"]);
    await again.close();
    await page.close();
  });

  it("shows columns that there was no room for, once they are chosen, and nothing over another", async () => {
    const page = await open();
    const header = (name: string) => page.getByRole("columnheader", { name });
    expect(await header("Started").count()).toBe(0);
    await page.getByText("Columns", { exact: true }).click();
    for (const name of ["Model", "Tokens/s", "Started"]) await page.getByLabel(name, { exact: true }).check();
    await header("Started").waitFor();
    expect(await wide(page)).toEqual({ page: 0, out: [] });
    const over = await page.locator(".run-line > *").evaluateAll((cells) =>
      cells
        .filter((cell) => {
          const [inner, next] = [cell.firstElementChild, cell.nextElementSibling];
          if (!inner || !next || next.classList.contains("cell-reason")) return false;
          return inner.getBoundingClientRect().right > next.getBoundingClientRect().left;
        })
        .map((cell) => cell.textContent),
    );
    expect(over).toEqual([]);
    const again = await open(placeOf(page));
    await again.getByRole("columnheader", { name: "Started" }).waitFor();
    await again.getByText("Columns", { exact: true }).click();
    await again.getByRole("button", { name: "As there is room" }).click();
    await again.getByRole("columnheader", { name: "Started" }).waitFor({ state: "detached" });
    await again.close();
    await page.close();
  });

  it("writes tags and a note to the run's folder, and shows them after a reload", async () => {
    const page = await open();
    const notes = () => JSON.parse(readFileSync(`${stage.runs}/sft/notes.json`, "utf8")) as Record<string, unknown>;
    const row = page.getByTestId("run-row").filter({ has: page.locator('[data-run="sft"]') });
    await row.getByRole("button", { name: "Tags and note of sft" }).click();
    const form = page.getByRole("form", { name: "Tags and note" });
    await form.getByLabel("Tags").fill("baseline, short ");
    await form.getByLabel("Note").fill("learnt by heart?");
    await form.getByRole("button", { name: "Save" }).click();
    await texts(row.locator(".chip")).toEqual(["baseline", "short"]);
    expect(notes()).toMatchObject({ tags: ["baseline", "short"], note: "learnt by heart?", archived: false });
    await page.reload();
    await texts(row.locator(".chip")).toEqual(["baseline", "short"]);
    expect(await row.locator(".note").textContent()).toBe("learnt by heart?");
    // Too long for a tag: said in the form, nothing written.
    await row.getByRole("button", { name: "Tags and note of sft" }).click();
    await form.getByLabel("Tags").fill("x".repeat(60));
    await form.getByRole("button", { name: "Save" }).click();
    await form.getByRole("alert").waitFor();
    await form.getByRole("button", { name: "Cancel" }).click();
    expect(notes()).toMatchObject({ tags: ["baseline", "short"] });
    await page.close();
  });

  it("asks again by itself when the network is back", async () => {
    // The view itself is loaded before.
    const page = await stage.site.open("#/run/dpo");
    await page.locator(".chart .u-over").first().waitFor();
    await page.context().setOffline(true);
    await page.evaluate(() => {
      location.hash = "#/run/sft";
    });
    await page.getByText("The server does not answer.").first().waitFor();
    await page.context().setOffline(false);
    await page.locator(".chart .u-over").first().waitFor();
    await page.close();
  });

  it("puts a run away and brings it back", async () => {
    const page = await open("#/runs?filter=ppo");
    const edit = page.getByRole("button", { name: "Tags and note of ppo" });
    const archive = async (yes: boolean) => {
      await edit.click();
      await page.getByLabel("Archived", { exact: true }).setChecked(yes);
      await page.getByRole("button", { name: "Save" }).click();
    };
    await archive(true);
    await page.getByText("No run fits the filter.").waitFor();
    await page.getByLabel("Archived too").check();
    await texts(names(page)).toEqual(["ppo"]);
    expect(query(page).archived).toBe("all");
    await archive(false);
    await page.getByLabel("Archived too").uncheck();
    await texts(names(page)).toEqual(["ppo"]);
    await page.close();
  });

  it("compares the chosen runs, chosen by mouse or keys", async () => {
    const page = await open("#/runs?filter=grpo");
    const button = page.getByRole("button", { name: "Compare" });
    expect(await button.isDisabled()).toBe(true);
    await page.getByRole("checkbox", { name: "Select grpo-seed2" }).check();
    await page.getByRole("checkbox", { name: "Select grpo", exact: true }).check();
    await page.getByRole("button", { name: "2 chosen" }).waitFor();
    await button.click();
    await expect.poll(() => placeOf(page)).toBe("#/compare?runs=grpo-seed2%2Cgrpo");
    await page.goBack();
    await expect.poll(() => query(page).filter).toBe("grpo");
    await page.getByRole("button", { name: "2 chosen" }).click();
    await expect.poll(() => query(page).selected).toBeUndefined();
    const shown = await page
      .locator("[data-run]")
      .evaluateAll((rows) => rows.map((row) => row.getAttribute("data-run")));
    for (const key of ["j", "x", "j", "x", "c"]) await page.locator("body").press(key);
    const [first, second] = shown;
    await expect.poll(() => placeOf(page)).toBe(`#/compare?runs=${first}%2C${second}`);
    await page.close();
  });

  it("says in an empty folder which commands make a run, and shows one as soon as it is there", async () => {
    const folder = `${stage.runs}/../none`;
    const site = await openSite({ folders: [folder], cacheDir: `${folder}-cache`, browser: stage.site.browser });
    const page = await site.open("#/runs");
    expect(existsSync(folder)).toBe(false);
    await page.getByText(/is not there/).waitFor();
    await texts(page.getByTestId("empty").locator("dt")).toEqual([
      "npx stateset-agents demo",
      "npx stateset-agents train",
    ]);
    // Without its weights.
    cpSync(`${stage.runs}/sft`, `${folder}/sft`, {
      recursive: true,
      filter: (path) => !/\/(checkpoints|final)$/.test(path),
    });
    await texts(names(page)).toEqual(["sft"]);
    await site.close();
    expect(site.faults).toEqual([]);
  });

  it("lets nobody change anything where it was opened read-only", async () => {
    const cacheDir = `${stage.runs}/../cache-read-only`;
    const site = await openSite({ folders: [stage.runs], cacheDir, readOnly: true, browser: stage.site.browser });
    const page = await site.open("#/runs");
    await page.getByTestId("run-row").first().waitFor();
    expect(await page.getByRole("button", { name: /Tags and note/ }).count()).toBe(0);
    await page.goto(`${site.url}/ui/#/run/grpo`);
    await page.locator(".run-head").waitFor();
    expect(await page.getByRole("button", { name: /Tags and note|Stop|Resume/ }).count()).toBe(0);
    await site.close();
  });
}
