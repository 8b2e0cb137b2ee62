/** That no command is without tests of its flags; these are beside the commands. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { shownFlags } from "../../test/flags.ts";

it("every command with flags is among those that a test file goes through", () => {
  const folder = fileURLToPath(new URL("./commands/", import.meta.url));
  const covered = readdirSync(folder)
    .filter((name) => name.endsWith(".test.ts"))
    .flatMap((name) => /flagTests\((.*)\)/.exec(readFileSync(`${folder}${name}`, "utf8"))?.[1]?.split(", ") ?? [])
    .map((quoted) => JSON.parse(quoted) as string);
  const commands = shownFlags().filter(({ options }) => options.length > 0);
  expect(commands.length).toBeGreaterThan(10);
  expect([...new Set(commands.map(({ path }) => path[0] ?? ""))].sort()).toEqual(covered.sort());
});
