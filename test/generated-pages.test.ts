import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { errorsPage } from "../scripts/errors-page.ts";
import { trainingOptionsPage } from "../scripts/training-options-page.ts";

const page = (path: string) => readFileSync(fileURLToPath(new URL(`../${path}`, import.meta.url)), "utf8");

it("docs/errors.md lists every error code (npx tsx scripts/errors-page.ts writes it)", () => {
  expect(page("docs/errors.md")).toBe(errorsPage());
});

it("docs/training-options.md lists every training option (npx tsx scripts/training-options-page.ts writes it)", () => {
  expect(page("docs/training-options.md")).toBe(trainingOptionsPage());
});
