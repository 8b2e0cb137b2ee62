import { expect, it } from "vitest";
import { changedVersion, VersionNames } from "./version.ts";

it("names a change after the one before it, also while that name is worked out", async () => {
  const names = new VersionNames(3, "opened");
  let resolve = (_digest: string) => {};
  const digest = new Promise<string>((resolved) => {
    resolve = resolved;
  });
  const loaded = names.name(5, () => digest);
  const stepped = names.name(6, (before) => changedVersion(before, "step"));
  expect(names.now).toBe("opened");
  expect(names.at(4)).toBe("opened");
  resolve("loaded");
  expect(await Promise.all([loaded, stepped])).toEqual(["loaded", changedVersion("loaded", "step")]);
  expect(await Promise.all([5, 6, 9].map((count) => names.at(count)))).toEqual([
    "loaded",
    await stepped,
    await stepped,
  ]);
  expect(names.now).toBe(await stepped);
});
