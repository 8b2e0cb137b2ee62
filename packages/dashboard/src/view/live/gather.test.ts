import { describe, expect, it } from "vitest";
import { conversation } from "../../../test/support/live-conversation.ts";
import { cutBack, type Gathered, gather, mostOfRun, regather, without } from "./gather.ts";

const nothing: Gathered = new Map();
const seqs = (all: Gathered) => [...all.values()].map(({ run, seq }) => `${run} ${seq}`);

describe("gathering conversations", () => {
  it("holds each once, however often it is said", () => {
    const once = gather(nothing, [conversation(0), conversation(1)]);
    expect(gather(once, [conversation(1), conversation(0)])).toBe(once);
    expect(seqs(gather(once, [conversation(1), conversation(2)]))).toEqual(["demo 0", "demo 1", "demo 2"]);
  });

  it("gives a conversation its reward, and does not take it back for a message that came late", () => {
    const rewarded = gather(gather(nothing, [conversation(0)]), [conversation(2, { id: "c0", at: 1000, reward: 0.5 })]);
    expect([...rewarded.values()][0]?.reward).toBe(0.5);
    expect(gather(rewarded, [conversation(0)])).toBe(rewarded);
  });

  it("leaves a conversation where it ended when its reward comes", () => {
    const now = gather(gather(nothing, [conversation(0), conversation(1)]), [
      conversation(2, { id: "c0", at: 1000, reward: 1 }),
    ]);
    expect([...now.values()].map(({ id }) => id)).toEqual(["c0", "c1"]);
  });

  it("takes the one that was written later where a step was played again", () => {
    const again = conversation(7, { id: "c0", ended: "again" });
    const now = gather(gather(nothing, [conversation(0, { reward: 1 })]), [again, conversation(0, { reward: 1 })]);
    expect([...now.values()]).toEqual([again]);
  });

  it("tells runs and steps of one id apart", () => {
    expect(
      gather(nothing, [conversation(0), conversation(0, { run: "other" }), conversation(1, { id: "c0", step: 2 })])
        .size,
    ).toBe(3);
  });

  it("asks anew after a reset: what is older stays, what is no more goes", () => {
    const before = gather(
      nothing,
      [0, 1, 2, 3].map((seq) => conversation(seq)),
    );
    const now = regather(before, "demo", [conversation(2), conversation(4)]);
    expect(regather(before, "demo", [])).toBe(before);
    expect(seqs(now)).toEqual(["demo 0", "demo 1", "demo 2", "demo 4"]);
    expect(seqs(regather(gather(before, [conversation(9, { run: "b" })]), "demo", [conversation(0)]))).toEqual([
      "b 9",
      "demo 0",
    ]);
  });

  it("drops what a resume took back, and runs that are gone", () => {
    const before = gather(nothing, [
      conversation(0),
      conversation(1, { step: 2 }),
      conversation(2, { step: 3, run: "b" }),
    ]);
    expect(seqs(cutBack(before, "demo", 1))).toEqual(["demo 0", "b 2"]);
    expect(cutBack(before, "demo", 2)).toBe(before);
    expect(seqs(without(before, ["demo"]))).toEqual(["b 2"]);
  });

  it("never holds more of a run than it can show, and drops the oldest", () => {
    const all = gather(
      nothing,
      Array.from({ length: mostOfRun + 5 }, (_, seq) => conversation(seq)),
    );
    expect(all.size).toBe(mostOfRun);
    expect([...all.values()][0]?.seq).toBe(5);
  });
});
