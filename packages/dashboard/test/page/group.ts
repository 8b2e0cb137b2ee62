import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { number } from "../../src/view/parts/number.ts";
import type { Stage } from "../page.test.ts";
import { lines, placeOf, query, texts } from "../support/look.ts";

interface Recorded {
  id: string;
  group: string;
  leftOut?: string;
  messages: { content: string }[];
  reward: { score: number };
}

export function group(stage: Stage): void {
  const membersOf = (run: string, step: number, id: string) =>
    lines<Recorded>(`${stage.runs}/${run}/trajectories/step-00000${step}.jsonl`).filter((one) => one.group === id);
  const open = async (run: string, step: number, id: string, rest = "") => {
    const page = await stage.site.open(`#/group/${encodeURIComponent(`${run}:${step}:${id}`)}${rest}`);
    await page.locator(".member-table tbody tr").first().waitFor();
    return page;
  };
  const ids = (page: Page) => page.locator(".member-table tbody th");

  it("lists the members, the best first, sorted by any column as the address says", async () => {
    const page = await open("grpo", 2, "s2-g0");
    const members = membersOf("grpo", 2, "s2-g0");
    const rewards = page.locator(".member-table .reward");
    const best = members.map(({ reward }) => reward.score).sort((a, b) => b - a);
    await texts(rewards).toEqual(best.map((one) => number(one)));
    await page.getByRole("button", { name: "Reward" }).click();
    await texts(rewards).toEqual(best.toReversed().map((one) => number(one)));
    const order = await ids(page).allInnerTexts();
    const again = await stage.site.open(placeOf(page));
    await texts(ids(again)).toEqual(order);
    await again.close();
    // By keys: to a member, and into it.
    await page.locator("body").press("j");
    await expect.poll(() => page.locator('[aria-current="true"] th').textContent()).toBe(order[0]);
    await page.locator("body").press("o");
    await expect.poll(() => placeOf(page)).toMatch(/^#\/trajectory\/grpo%3A2%3A/);
    await page.close();
  });

  it("sets the best beside the worst and marks the words in which they differ", async () => {
    const page = await open("grpo", 2, "s2-g0");
    const members = membersOf("grpo", 2, "s2-g0");
    const shown = () =>
      page.locator(".beside-side").filter({ hasText: "assistant" }).locator(".beside-text").allTextContents();
    const said = (i: number) => members[i]!.messages.at(-1)!.content;
    const scores = members.map(({ reward }) => reward.score);
    const [best, worst] = [scores.indexOf(Math.max(...scores)), scores.indexOf(Math.min(...scores))];
    await expect.poll(shown).toEqual([said(best), said(worst)]);
    const marked = page.locator(".beside-text mark");
    expect(await marked.count()).toBeGreaterThan(0);
    for (const words of await marked.allTextContents()) expect(said(best) + said(worst)).toContain(words.trim());
    await page.getByLabel("Right").selectOption({ index: best });
    await page.getByText("They say the same.").waitFor();
    await expect.poll(() => query(page).right).toBe(String(best));
    await page.getByLabel("Left").selectOption({ index: worst });
    await expect.poll(() => query(page).left).toBe(String(worst));
    await expect.poll(shown).toEqual([said(worst), said(best)]);
    await page.close();
  });

  it("fills the numbers of the group into the formula of its algorithm", async () => {
    const page = await open("grpo", 2, "s2-g0");
    const scores = membersOf("grpo", 2, "s2-g0").map(({ reward }) => reward.score);
    const mean = scores.reduce((sum, one) => sum + one, 0) / scores.length;
    const why = page.getByRole("region", { name: "Why this advantage" });
    const rows = await why.locator("td").allTextContents();
    expect(rows.length).toBe(scores.length);
    const spread = Math.sqrt(scores.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (scores.length - 1));
    rows.forEach((row, i) => {
      const given = Number(/= (\S+)$/.exec(row.replaceAll("−", "-"))![1]);
      expect(given, row).toBeCloseTo((scores[i]! - mean) / spread, 2);
    });
    await page.close();
  });

  it("draws the replies as a tree from what they share", async () => {
    const page = await open("grpo", 2, "s2-g0");
    const members = membersOf("grpo", 2, "s2-g0");
    const tree = page.locator(".reply-tree");
    expect(await tree.locator(":scope > li > .tree-node").textContent()).toContain(
      `${members.length} of ${members.length} members`,
    );
    // Each is a leaf of its own, or ends where others that say the same do.
    const leaves = await tree.locator("a").allTextContents();
    for (const id of leaves) expect(members.map((one) => one.id)).toContain(id);
    expect(leaves.length).toBeGreaterThan(1);
    expect(new Set(leaves).size).toBe(leaves.length);
    expect(await tree.locator(":scope > li > ul > li").count()).toBeGreaterThan(1);
    await page.getByRole("link", { name: "Next ›" }).click();
    await expect.poll(() => placeOf(page)).toBe("#/group/grpo%3A2%3As2-g1");
    await page.locator(".crumbs", { hasText: "s2-g1" }).waitFor();
    await page.locator("body").press("[");
    await expect.poll(() => placeOf(page)).toBe("#/group/grpo%3A2%3As2-g0");
    await page.locator(".crumbs", { hasText: "s2-g0" }).waitFor();
    await page.locator("body").press("g");
    await expect.poll(() => placeOf(page)).toBe("#/run/grpo/step/2");
    await page.close();
  });

  it("shows a pair of DPO with its margin", async () => {
    const page = await open("dpo", 2, "pair-1");
    await texts(page.locator(".member-table .side")).toEqual(expect.arrayContaining(["chosen", "rejected"]));
    await page.getByRole("region", { name: "Why this margin" }).waitFor();
    expect(await page.locator(".formula").textContent()).toContain("β");
    await page.close();
  });

  it("says that DAPO refused a group, and why", async () => {
    const refused = [1, 2, 3]
      .flatMap((step) =>
        lines<Recorded>(`${stage.runs}/dapo/trajectories/step-00000${step}.jsonl`).map((one) => ({ ...one, step })),
      )
      .find(({ leftOut }) => leftOut === "refused")!;
    const page = await open("dapo", refused.step, refused.group);
    const chips = await page.locator(".member-table .chip-warn").allTextContents();
    expect(new Set(chips)).toEqual(new Set(["refused"]));
    await page.getByText(/Not learnt from/).waitFor();
    await page.locator(".member-table th a").first().click();
    await page.getByText(/Nothing was learnt from it: the algorithm did not want its group/).waitFor();
    await page.close();
  });
}
