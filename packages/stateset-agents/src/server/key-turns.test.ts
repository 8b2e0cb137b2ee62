import { expect, it } from "vitest";
import { createKeyTurns } from "./key-turns.ts";

it("lets a key that asks for much delay another by one piece alone, also when pieces fail", async () => {
  const turns = createKeyTurns<unknown>("schemas");
  const done: string[] = [];
  let free: Promise<unknown> = Promise.resolve();
  // One thread does the work of all, in the order it is given it.
  const work = (name: string) => () => {
    free = free.then(() => done.push(name));
    return free;
  };
  const flood = Array.from({ length: 10 }, (_, i) => turns.run("flood", `${i}`, work(`flood ${i}`)));
  const failing = turns.run("flood", "failing", () => Promise.reject(new Error("too large")));
  const quiet = turns.run("quiet", "1", work("quiet"));
  await expect(failing).rejects.toThrow("too large");
  await Promise.all([...flood, quiet]);
  expect(done.indexOf("quiet")).toBeLessThanOrEqual(1);
  expect(done.filter((name) => name !== "quiet")).toEqual(flood.map((_, i) => `flood ${i}`));
});

it("refuses a key with too many waiting, and takes it again once they are done", async () => {
  const turns = createKeyTurns<unknown>("schemas");
  let end = () => {};
  const held = new Promise<void>((settle) => {
    end = settle;
  });
  const waiting = Array.from({ length: 16 }, (_, i) => turns.run("flood", `${i}`, () => held));
  await expect(turns.run("flood", "new", async () => 1)).rejects.toMatchObject({ status: 429 });
  expect(await turns.run("quiet", "0", async () => 2)).toBe(2);
  end();
  await Promise.all(waiting);
  expect(await turns.run("flood", "0", async () => 3)).toBe(3);
});

it("does a piece once for a key that asks for it many times at once, and again later", async () => {
  const turns = createKeyTurns<number>("schemas");
  let made = 0;
  const make = async () => ++made;
  const all = await Promise.all(Array.from({ length: 64 }, (_, i) => turns.run("eager", `${i % 2}`, make)));
  expect(new Set(all)).toEqual(new Set([1, 2]));
  expect(await turns.run("eager", "0", make)).toBe(3);
});
