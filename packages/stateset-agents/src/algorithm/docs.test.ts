/** docs/reference/algorithms.md holds a table of options and defaults that is written from the schemas: `UPDATE_DOCS=1 npx vitest run docs.test` renews it. */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { algorithmDefaults, algorithmNames, defaultGroupSize, optionNames } from "./algorithms.ts";

const file = fileURLToPath(new URL("../../../../docs/reference/algorithms.md", import.meta.url));
const [start, end] = ["<!-- options:start -->", "<!-- options:end -->"];

function table(): string {
  const rows = algorithmNames.map((name) => {
    const defaults = algorithmDefaults(name) as Record<string, unknown>;
    const options = optionNames(name).map((option) => {
      const value = defaults[option];
      // An object of its own defaults is described below the table.
      if (value === undefined || (typeof value === "object" && value !== null)) return `\`${option}\``;
      return `\`${option}\` ${typeof value === "string" ? value : JSON.stringify(value)}`;
    });
    return `| \`${name}\` | ${options.join(", ")} |`;
  });
  return ["| algorithm | options with their defaults |", "|---|---|", ...rows].join("\n");
}

it("docs/reference/algorithms.md lists every option with its default", () => {
  const text = readFileSync(file, "utf8");
  const [from, to] = [text.indexOf(start) + start.length, text.indexOf(end)];
  expect(to).toBeGreaterThan(from);
  if (process.env.UPDATE_DOCS) writeFileSync(file, `${text.slice(0, from)}\n${table()}\n${text.slice(to)}`);
  else expect(text.slice(from, to).trim()).toBe(table());
});

it("docs/reference/algorithms.md explains every option and names every algorithm with its group size", () => {
  const text = readFileSync(file, "utf8");
  const [, losses] = text.split("## Losses");
  const [, meanings] = text.split("What they mean:");
  for (const name of algorithmNames) {
    const row = losses!.split("\n").find((line) => line.startsWith(`| \`${name}\``));
    expect(row?.split("|").at(-3)?.trim(), name).toBe(String(defaultGroupSize(name)));
    for (const option of optionNames(name)) expect(meanings, option).toContain(`\`${option}\``);
  }
});
