import { expect, it } from "vitest";
import { readTrajectories } from "../../../stateset-agents/src/run/trajectories.ts";
import type { Stage } from "../page.test.ts";
import { lines, placeOf, query, texts } from "../support/look.ts";

interface Recorded {
  id: string;
  messages: { role: string; content: string }[];
}

export function trajectory(stage: Stage): void {
  const open = async (key: string, rest = "", settings = {}) => {
    const page = await stage.site.open(`#/trajectory/${encodeURIComponent(key)}${rest}`, settings);
    await page.locator(".message").first().waitFor();
    return page;
  };

  it("colours tokens by what is asked for, with a legend, and says each number of the one pointed at", async () => {
    const page = await open("grpo:2:0");
    await page.locator("[data-token]").first().waitFor();
    const colours = page.getByRole("group", { name: "Colour tokens by" }).getByRole("button");
    const names = await colours.allTextContents();
    expect(names).toEqual(
      expect.arrayContaining(["Advantage", "Log-prob", "Ratio", "Entropy", "Reference difference", "Text"]),
    );
    const seen = new Set<string>();
    for (const name of names.filter((one) => one !== "Text")) {
      await colours.filter({ hasText: name }).first().click();
      await expect.poll(() => page.locator("[aria-pressed=true]").first().textContent()).toBe(name);
      seen.add((await page.locator(".token-legend figcaption").textContent())!);
      // Nothing is likelier than certain.
      if (name === "Log-prob") expect(await page.locator(".token-legend-ticks span").last().textContent()).toBe("0");
    }
    expect(seen.size).toBe(names.length - 1);
    await page.locator("body").press("t");
    await expect.poll(() => query(page).colour).toBe("text");
    await expect.poll(() => page.locator("[data-token]").count()).toBe(0);
    await page.close();
  });

  it("shows boundaries, special tokens, and all tokens with those that do not learn in grey", async () => {
    const { tokens, learn } = readTrajectories(`${stage.runs}/grpo`, 2)[0]!.chains[0]!.columns!;
    const page = await open("grpo:2:0");
    const drawn = page.locator("[data-token]");
    const learnt = learn.reduce((sum, one) => sum + one, 0);
    await drawn.first().waitFor();
    expect(await drawn.count()).toBeLessThanOrEqual(learnt);
    await page.getByRole("button", { name: "Special tokens" }).click();
    await expect.poll(() => drawn.count()).toBe(learnt);
    await page.getByRole("button", { name: "Boundaries" }).click();
    await page.locator(".token-lines.with-boundaries").waitFor();
    expect(await drawn.nth(1).textContent()).toMatch(/[·␣]/);
    await page.locator("body").press("a");
    await expect.poll(() => drawn.count()).toBe(tokens.length);
    await expect.poll(() => page.locator("[data-token].still").count()).toBe(tokens.length - learnt);
    expect(query(page)).toEqual({ special: "1", boundaries: "1", all: "1" });
    await page.getByRole("button", { name: "Group's scale" }).click();
    await page.locator(".token-legend", { hasText: "this group's tokens" }).waitFor();
    await page.close();
  });

  it("marks the tokens that the clip held back", async () => {
    const bound = 0.0001;
    const step = [1, 2, 3].find((one) => clippedIn(stage.runs, one, bound) > 0)!;
    const page = await open(`grpo:${step}:0`, "?special=1");
    await page.locator("[data-token]").first().waitFor();
    await expect.poll(() => page.locator(".token.clipped").count()).toBe(clippedIn(stage.runs, step, bound));
    await page.close();
  });

  it("remembers the token that was chosen in the address", async () => {
    const page = await open("grpo:2:0");
    await page.locator("[data-token]").nth(3).click();
    await expect.poll(() => query(page).token).toBeDefined();
    const again = await stage.site.open(placeOf(page));
    await again.locator(`.token-panel[data-shown="${query(page).token}"]`).waitFor();
    expect(await again.locator(".token-panel").textContent()).toBe(await page.locator(".token-panel").textContent());
    await again.close();
    await page.close();
  });

  it("copies messages, ids and a test case", async () => {
    const page = await open("grpo:2:0", "", { permissions: ["clipboard-read", "clipboard-write"] });
    await page.locator("[data-token]").first().waitFor();
    const copied = async (name: string) => {
      await page.getByRole("button", { name: `Copy as ${name}` }).click();
      await page
        .locator(".trajectory-copy [role=status]", {
          hasText: name === "messages" ? "messages" : name === "ids" ? "ids" : "test",
        })
        .waitFor();
      return page.evaluate(() => navigator.clipboard.readText());
    };
    const [record] = readTrajectories(`${stage.runs}/grpo`, 2);
    expect(JSON.parse(await copied("messages"))).toEqual(record!.messages);
    expect(JSON.parse(await copied("ids"))).toEqual([...record!.chains[0]!.columns!.tokens]);
    expect(await copied("test case")).toContain('import { expect, test } from "vitest";');
    await page.close();
  });

  it("goes to the next, the one before, another step and the group, and keeps how tokens are shown", async () => {
    const page = await open("grpo:2:0", "?colour=entropy");
    const previous = page.locator(".around").getByText("‹ Previous");
    expect(await previous.getAttribute("aria-disabled")).toBe("true");
    await page.getByRole("link", { name: "Next ›" }).click();
    await expect.poll(() => placeOf(page)).toBe("#/trajectory/grpo%3A2%3A1?colour=entropy");
    await previous.and(page.locator("a")).waitFor();
    await page.locator("body").press("k");
    await expect.poll(() => placeOf(page)).toBe("#/trajectory/grpo%3A2%3A0?colour=entropy");
    await previous.and(page.locator("[aria-disabled]")).waitFor();
    await page.locator("body").press("]");
    await expect.poll(() => placeOf(page)).toMatch(/^#\/trajectory\/grpo%3A3%3A\d\?colour=entropy$/);
    await page.locator(".crumbs", { hasText: "step 3" }).waitFor();
    await page.locator("body").press("g");
    await expect.poll(() => placeOf(page)).toMatch(/^#\/group\/grpo%3A3%3As3-g\d$/);
    await page.close();
  });

  it("shows every turn of a longer conversation with its tokens", async () => {
    const [first] = lines<Recorded>(`${stage.runs}/proof/trajectories/step-000001.jsonl`);
    const page = await open("proof:1:0");
    await page.locator("[data-token]").first().waitFor();
    const said = first!.messages;
    await texts(page.locator(".messages > .message:not(.message-system) .message-role")).toEqual(
      said.map(({ role }) => role),
    );
    const replies = said.filter(({ role }) => role === "assistant");
    expect(replies.length).toBeGreaterThan(1);
    await expect
      .poll(async () => (await page.locator(".token-lines").allTextContents()).map((text) => text.trim()))
      .toEqual(replies.map(({ content }) => content.trim()));
    await page.close();
  });

  it("says of a conversation without tokens how to record them", async () => {
    const page = await open("grpo:e2:0");
    await page.locator(".notice").waitFor();
    expect(await page.getByRole("button", { name: /^Copy as/ }).count()).toBe(2);
    await page.close();
  });
}

/** Of the first conversation of a step of the grpo run: those whose ratio went beyond a bound on the side the advantage pushes to. */
function clippedIn(runs: string, step: number, bound: number): number {
  const { ratio, advantage } = readTrajectories(`${runs}/grpo`, step)[0]!.chains[0]!.columns!;
  return advantage.reduce((sum, a, i) => sum + Number(a > 0 ? ratio[i]! > 1 + bound : ratio[i]! < 1 - bound), 0);
}
