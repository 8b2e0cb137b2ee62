import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { foldersOf, listPlaces, placeOf } from "./places.ts";

const root = temporaryFolder();
const runAt = (...path: string[]) => {
  const dir = join(root, ...path);
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, "config.json"), "{}");
  return dir;
};
const first = join(root, "first");
const second = join(root, "second");
for (const name of ["a", "b", "2~odd", "deep/inner"]) runAt("first", name);
mkdirSync(join(first, "no-run"));
mkdirSync(join(first, ".tmp-1-half"));
runAt("second", "a");
const secret = runAt("secret");
symlinkSync(secret, join(first, "leads-out"));
symlinkSync(join(first, "a"), join(first, "leads-in"));
const folders = [first, second, join(root, "missing"), runAt("single")];

it("knows every run by a key that leads back to it", () => {
  const places = listPlaces(folders);
  expect(places.map(({ key }) => key)).toEqual(["1~2~odd", "a", "b", "leads-in", "2~a", "4~single"]);
  for (const place of places) expect(placeOf(folders, place.key)).toEqual(place);
  expect(foldersOf(folders).map(({ exists }) => exists)).toEqual([true, true, false, true]);
});

it.each([
  "..",
  ".",
  "",
  "../secret",
  "a/../../secret",
  "/etc",
  "a/",
  "deep/inner",
  "deep\\inner",
  "no-run",
  "missing",
  "leads-out",
  "1~a",
  "2~odd",
  "2~..",
  "2~b",
  "0~a",
  "9~a",
  "4~..",
  "4~a",
  "a\0",
  "%2e%2e",
  "__proto__",
])("finds nothing by %j", (key) => {
  expect(() => placeOf(folders, key)).toThrow(expect.objectContaining({ status: 404 }) as Error);
});
