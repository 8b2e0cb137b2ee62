import { expect, it } from "vitest";
import { createKeyTurns } from "./key-turns.ts";

it("lets a key that asks for much delay another by one piece alone, also when pieces fail", async () => {
  const turns = createKeyTurns("schemas");
  const done: string[] = [];
  let free: Promise<unknown> = Promise.resolve();
  // One thread does the work of all, in the order it is given it.
  const work = (name: string) => () => {
    free = free.then(() => done.push(name));
    return free;
  };
  const flood = Array.from({ length: 10 }, (_, i) => turns.run("flood", work(`flood ${i}`)));
  const failing = turns.run("flood", () => Promise.reject(new Error("too large")));
  const quiet = turns.run("quiet", work("quiet"));
  await expect(failing).rejects.toThrow("too large");
  await Promise.all([...flood, quiet]);
  expect(done.indexOf("quiet")).toBeLessThanOrEqual(1);
  expect(done.filter((name) => name !== "quiet")).toEqual(flood.map((_, i) => `flood ${i}`));
});

it("refuses a key with too many waiting, and takes it again once they are done", async () => {
  const turns = createKeyTurns("schemas");
  let end = () => {};
  const held = new Promise<void>((settle) => {
    end = settle;
  });
  const waiting = Array.from({ length: 16 }, () => turns.run("flood", () => held));
  await expect(turns.run("flood", async () => 1)).rejects.toMatchObject({ status: 429 });
  expect(await turns.run("quiet", async () => 2)).toBe(2);
  end();
  await Promise.all(waiting);
  expect(await turns.run("flood", async () => 3)).toBe(3);
});
