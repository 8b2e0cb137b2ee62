import { expect, it } from "vitest";
import { createDashboard } from "../../../stateset-agents/src/dashboard/create-dashboard.ts";
import { createStubPolicy } from "../../../stateset-agents/src/policy/stub/stub-policy.ts";
import { createServer } from "../../../stateset-agents/src/server/create-server.ts";
import { staticKeys } from "../../../stateset-agents/src/server/key/key-store.ts";
import type { Stage } from "../page.test.ts";

/** What is around every view. */
export function frame(stage: Stage): void {
  it("says to whoever has no link where it is, and lets in who got one since", async () => {
    const known = await stage.site.open("#/runs");
    const context = await stage.site.browser.newContext();
    const page = await context.newPage();
    await page.goto(`${stage.site.url}/ui/#/runs`);
    await page.getByRole("heading", { name: "This page needs the link from the terminal" }).waitFor();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { name: "This page needs the link from the terminal" }).waitFor();
    await context.addCookies(await known.context().cookies());
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByTestId("run-row").first().waitFor();
    await context.close();
    await known.close();
  });

  it("asks for a key beside a server that has keys, says what is wrong with one, and keeps a cookie for a good one", async () => {
    const dashboard = await createDashboard({ folders: [stage.runs], cacheDir: `${stage.runs}/../cache-keys` });
    const keys = staticKeys(["sk-of-this-test"]);
    const server = await createServer({ models: { m: createStubPolicy() }, keys, routes: dashboard.routes });
    const { url } = await server.listen({ port: 0 });
    const context = await stage.site.browser.newContext();
    const page = await context.newPage();
    await page.goto(`${url}/ui/#/runs`);
    const sign = async (key: string) => {
      await page.getByLabel("API key").fill(key);
      await page.getByRole("button", { name: "Sign in" }).click();
    };
    await sign("clé");
    await page.getByRole("alert").filter({ hasText: "A key has no such characters." }).waitFor();
    await sign("sk-of-another");
    await page.getByRole("alert").filter({ hasText: "key" }).filter({ hasNotText: "such characters" }).waitFor();
    await sign("sk-of-this-test");
    await page.getByTestId("run-row").first().waitFor();
    await page.reload();
    await page.getByTestId("run-row").first().waitFor();
    await context.close();
    await server.close();
    await dashboard.close();
  });

  it("shows what went wrong, and what was asked for once it is tried again", async () => {
    const page = await stage.site.open("#/runs");
    await page.getByTestId("run-row").first().waitFor();
    const failing = { status: 500, json: { error: { message: "The disk is gone." } } };
    await page.route("**/ui/api/runs/sft", (route) => route.fulfill(failing), { times: 1 });
    await page.goto(`${stage.site.url}/ui/#/run/sft`);
    await page.getByRole("alert").filter({ hasText: "The disk is gone." }).waitFor();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator(".run-head").waitFor();
    expect(await page.getByText("The disk is gone.").count()).toBe(0);
    await page.close();
  });

  it("is skipped by the first thing that Tab comes to", async () => {
    const page = await stage.site.open("#/runs");
    await page.getByTestId("run-row").first().waitFor();
    await page.keyboard.press("Tab");
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe("Skip to the content");
    await page.keyboard.press("Enter");
    await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("main");
    await page.close();
  });

  it.each(["reduce", "no-preference"] as const)(
    "moves nothing where less motion is wanted: %s",
    async (reducedMotion) => {
      const page = await stage.site.open("#/runs", { reducedMotion });
      await page.getByTestId("run-row").first().waitFor();
      const moving = await page.evaluate(() => {
        const signs = [["spinner"], ["tone-live", "run-sign"]].map((classes) => {
          const own = document.createElement("span");
          own.className = classes.at(-1)!;
          const around = document.createElement("span");
          around.className = classes[0]!;
          if (classes.length > 1) around.append(own);
          document.querySelector("main")!.append(classes.length > 1 ? around : own);
          return own;
        });
        return signs.map((sign) => getComputedStyle(sign).animationName);
      });
      expect(moving).toEqual(reducedMotion === "reduce" ? ["none", "none"] : ["turn", "pulse"]);
      await page.close();
    },
  );
}
