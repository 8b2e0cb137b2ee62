import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { errorsPage } from "../scripts/errors-page.ts";

const page = (path: string) => readFileSync(fileURLToPath(new URL(`../${path}`, import.meta.url)), "utf8");

it("docs/errors.md lists every error code (npx tsx scripts/errors-page.ts writes it)", () => {
  expect(page("docs/errors.md")).toBe(errorsPage());
});
