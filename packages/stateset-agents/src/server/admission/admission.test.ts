import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { HttpError } from "../http-error.ts";
import { type Admission, type Admitted, createAdmission, type Ticket } from "./admission.ts";
import { ageMs } from "./fair-queue.ts";

let clock = 0;
const now = () => clock;
beforeEach(() => {
  clock = 0;
});

const ticket = (more: Partial<Ticket> = {}): Ticket => ({
  key: "a",
  priority: "interactive",
  tokens: 100,
  slots: 1,
  ...more,
});

/** One slot handed over at a time, held by somebody, so that all who come have to wait. */
async function held(maxWaiting = 10_000): Promise<{ admission: Admission; holder: Admitted }> {
  // A limit of ceil(0.8 × 1.25) = 1.
  const admission = createAdmission({ slots: 0.8, maxWaiting, now });
  return { admission, holder: await admission.enter(ticket({ key: "holder" })) };
}

type Named = Partial<Ticket> & { as: string };

/** Comes, notes who it is when it is let in, and leaves. */
async function pass(admission: Admission, { as, ...more }: Named, seen: string[]): Promise<void> {
  const admitted = await admission.enter(ticket(more));
  seen.push(as);
  admitted.leave();
}

/** Lets in one after the other all who come now, and says who they were, after those seen before. */
async function order(admission: Admission, holder: Admitted, tickets: readonly Named[], seen: string[] = []) {
  const all = tickets.map((one) => pass(admission, one, seen));
  holder.leave();
  await Promise.all(all);
  return seen;
}

const many = (count: number, one: Partial<Ticket> & { as: string }) => Array.from({ length: count }, () => one);
const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail("was let in"),
    (error: HttpError) => ({ status: error.status, ...error.details }),
  );

describe("the queue in front of the engine", () => {
  it("hands over a quarter more than there are slots, and the next when one leaves", async () => {
    const admission = createAdmission({ slots: 4, maxWaiting: 100, now });
    const inside = await Promise.all(Array.from({ length: 5 }, () => admission.enter(ticket())));
    const sixth = admission.enter(ticket());
    expect([admission.running, admission.waiting]).toEqual([5, 1]);
    clock = 30;
    inside[0]!.leave();
    inside[0]!.leave();
    expect((await sixth).queuedMs).toBe(30);
    expect([admission.running, admission.waiting]).toEqual([5, 0]);
    for (const one of [...inside, await sixth]) one.leave();
    expect(admission.running).toBe(0);
  });

  it("keeps a sixteenth of the slots free of any one key where callers share them, and the extra quarter for the others", async () => {
    const admission = createAdmission({ slots: 32, maxWaiting: 100, shared: true, now });
    const flood = Array.from({ length: 60 }, () => admission.enter(ticket({ key: "flooding" })));
    expect({ running: admission.running, waiting: admission.waiting }).toEqual({ running: 30, waiting: 30 });
    await admission.enter(ticket({ key: "quiet", tokens: 1_000_000 }));
    (await flood[0]!).leave();
    await flood[30]!;
    expect({ running: admission.running, waiting: admission.waiting }).toEqual({ running: 31, waiting: 29 });
    const others = Array.from({ length: 9 }, (_, i) => admission.enter(ticket({ key: `other ${i}` })));
    await Promise.all(others);
    const late = admission.enter(ticket({ key: "late" }));
    expect(admission.running).toBe(40);
    // Two leave: the key that has its share already stays behind.
    (await others[0]!).leave();
    await late;
    (await others[1]!).leave();
    expect({ running: admission.running, waiting: admission.waiting }).toEqual({ running: 39, waiting: 29 });
  });

  it("counts a request as the slots of its replies, and lets in alone what takes more than there are", async () => {
    const admission = createAdmission({ slots: 4, maxWaiting: 100, now });
    const three = await admission.enter(ticket({ slots: 3 }));
    const large = admission.enter(ticket({ slots: 128 }));
    const small = admission.enter(ticket());
    expect([admission.running, admission.waiting]).toEqual([3, 2]);
    three.leave();
    expect([admission.running, admission.waiting]).toEqual([128, 1]);
    (await large).leave();
    await small;
    expect(admission.running).toBe(1);
  });

  it("lets nobody overtake who is next, so that a large request is not kept out by small ones", async () => {
    const admission = createAdmission({ slots: 4, maxWaiting: 100, now });
    const inside = await Promise.all(Array.from({ length: 3 }, () => admission.enter(ticket())));
    const large = admission.enter(ticket({ slots: 5 }));
    const small = admission.enter(ticket());
    for (const one of inside) one.leave();
    await large;
    expect([admission.running, admission.waiting]).toEqual([5, 1]);
    (await large).leave();
    await small;
  });

  it("refuses a ticket that would stop the turns", async () => {
    const { admission } = await held();
    for (const bad of [{ tokens: Number.NaN }, { tokens: -1 }, { slots: 0 }, { slots: 0.5 }]) {
      await expect(admission.enter(ticket(bad))).rejects.toThrow(RangeError);
    }
    expect(admission.waiting).toBe(0);
  });
});

describe("keys take turns", () => {
  it("so that one with a thousand requests does not keep out another", async () => {
    const { admission, holder } = await held();
    const seen = await order(admission, holder, [
      ...many(1000, { as: "flood", key: "flood", tokens: 1000 }),
      ...many(10, { as: "quiet", key: "quiet", tokens: 1000 }),
    ]);
    expect(seen).toHaveLength(1010);
    // Two of each a round.
    const places = seen.flatMap((who, i) => (who === "quiet" ? [i] : []));
    for (const [nth, place] of places.entries()) expect(place).toBeLessThanOrEqual(2 * nth + 4);
  });

  it("by tokens, not by requests", async () => {
    const { admission, holder } = await held();
    const seen = await order(admission, holder, [
      ...many(40, { as: "long", key: "long", tokens: 8192 }),
      ...many(400, { as: "short", key: "short", tokens: 512 }),
    ]);
    const spent = { long: 0, short: 0 };
    for (const who of seen.slice(0, 340) as ("long" | "short")[]) {
      spent[who] += who === "long" ? 8192 : 512;
      // Never further apart than the longest request and a round.
      expect(Math.abs(spent.long - spent.short)).toBeLessThanOrEqual(8192 + 2048);
    }
    expect(spent.long).toBeGreaterThan(100_000);
  });

  it("whatever a request costs: what is thousands of rounds away is found at once", async () => {
    const { admission, holder } = await held();
    const seen = await order(admission, holder, [
      { as: "huge", key: "huge", tokens: 2 ** 45 },
      { as: "larger", key: "larger", tokens: 2 ** 46 },
      { as: "small", key: "small", tokens: 0 },
    ]);
    expect(seen).toEqual(["small", "huge", "larger"]);
  });

  it("and save up nothing while they ask for nothing", async () => {
    const { admission, holder } = await held();
    const one = await order(admission, holder, [...many(1, { as: "idle", key: "idle", tokens: 1 })]);
    expect(one).toEqual(["idle"]);
    const again = await admission.enter(ticket({ key: "holder" }));
    const seen = await order(admission, again, [
      ...many(4, { as: "b", key: "b", tokens: 2048 }),
      ...many(4, { as: "idle", key: "idle", tokens: 2048 }),
    ]);
    expect(seen).toEqual(["b", "idle", "b", "idle", "b", "idle", "b", "idle"]);
  });

  it("ten thousand of them, each with a request", async () => {
    const { admission, holder } = await held();
    const tickets = Array.from({ length: 10_000 }, (_, i) => ({ as: String(i), key: String(i) }));
    expect(await order(admission, holder, tickets)).toEqual(tickets.map(({ as }) => as));
  });
});

describe("classes", () => {
  it("go before one another, whose requests they may be", async () => {
    const { admission, holder } = await held();
    const seen = await order(admission, holder, [
      { as: "batch", priority: "batch" },
      { as: "rollout", key: "b", priority: "rollout" },
      { as: "interactive 1" },
      { as: "rollout 2", priority: "rollout" },
      { as: "interactive 2", key: "b" },
    ]);
    expect(seen).toEqual(["interactive 1", "interactive 2", "rollout", "rollout 2", "batch"]);
  });

  it.each([
    ["rollout", ageMs.batch - 1, 4],
    ["rollout", ageMs.batch, 1],
    ["interactive", ageMs.batch + ageMs.rollout - 1, 4],
    ["interactive", ageMs.batch + ageMs.rollout, 1],
  ] as const)("rise with age, so that nobody starves: a batch among %s after %d ms", async (priority, age, place) => {
    const { admission, holder } = await held();
    const seen: string[] = [];
    const batch = pass(admission, { as: "batch", key: "b", priority: "batch" }, seen);
    clock = age;
    await order(admission, holder, many(4, { as: "other", priority, tokens: 2048 }), seen);
    await batch;
    expect(seen.indexOf("batch")).toBe(place);
  });

  it("of one key take turns where age has brought them together: old rollouts do not keep out the next person", async () => {
    const { admission, holder } = await held();
    const seen: string[] = [];
    const rollouts = many(100, { as: "rollout", priority: "rollout" }).map((one) => pass(admission, one, seen));
    clock = ageMs.rollout;
    await order(admission, holder, [{ as: "person" }], seen);
    await Promise.all(rollouts);
    expect(seen.indexOf("person")).toBeLessThan(2);
  });
});

describe("a full queue", () => {
  it("turns away with 429, and says when to come again by how fast requests leave", async () => {
    const { admission, holder } = await held(2);
    const waiting = [admission.enter(ticket()), admission.enter(ticket())];
    expect(await refusal(admission.enter(ticket()))).toEqual({
      status: 429,
      code: "queue_full",
      headers: { "retry-after-ms": "1000", "retry-after": "1" },
    });
    clock = 700;
    holder.leave();
    clock = 1000;
    (await waiting[0]!).leave();
    const [third, fourth] = [admission.enter(ticket()), admission.enter(ticket())];
    // Every 300 ms one leaves; whoever is turned away after another comes one later.
    const told = [await refusal(admission.enter(ticket())), await refusal(admission.enter(ticket()))];
    expect(told.map(({ headers }) => headers!["retry-after-ms"])).toEqual(["300", "600"]);
    clock = 1_000_000;
    expect((await refusal(admission.enter(ticket()))).headers).toEqual({
      "retry-after-ms": "60000",
      "retry-after": "60",
    });
    for (const one of [waiting[1]!, third!, fourth!]) (await one).leave();
  });

  it("does not count the time in which nobody was there, nor who was turned away before it", async () => {
    const { admission, holder } = await held(0);
    for (const _ of [1, 2, 3]) await refusal(admission.enter(ticket()));
    holder.leave();
    (await admission.enter(ticket())).leave();
    clock = 3_600_000;
    await admission.enter(ticket());
    expect((await refusal(admission.enter(ticket()))).headers).toMatchObject({ "retry-after-ms": "1000" });
  });

  it("needs no place to wait where there is room", async () => {
    const admission = createAdmission({ slots: 1, maxWaiting: 0, now });
    await admission.enter(ticket());
    await admission.enter(ticket());
    expect(await refusal(admission.enter(ticket()))).toMatchObject({ status: 429 });
  });

  it("takes a place from the key that has most of it, the newest of the lowest class, for one that has few", async () => {
    const { admission, holder } = await held(4);
    const seen: string[] = [];
    const come = (as: string, more: Partial<Ticket>) =>
      pass(admission, { as, ...more }, seen).catch(({ details }: HttpError) => {
        seen.push(`${as}: ${details.code}`);
      });
    const all = [
      come("flood batch 1", { key: "flood", priority: "batch" }),
      come("flood batch 2", { key: "flood", priority: "batch" }),
      come("flood 1", { key: "flood" }),
      come("flood 2", { key: "flood" }),
      come("quiet 1", { key: "quiet" }),
      come("quiet 2", { key: "quiet", priority: "batch" }),
      // Now both have two.
      come("quiet 3", { key: "quiet", priority: "batch" }),
      come("flood 3", { key: "flood" }),
      // A key's own of a lower class gives way to it too.
      come("quiet 4", { key: "quiet" }),
    ];
    await Promise.resolve();
    expect(admission.waiting).toBe(4);
    holder.leave();
    await Promise.all(all);
    const turnedAway = ["flood batch 2", "flood batch 1", "quiet 3", "flood 3", "quiet 2"];
    expect(seen.slice(0, 5)).toEqual(turnedAway.map((who) => `${who}: queue_full`));
    expect(seen.slice(5).sort()).toEqual(["flood 1", "flood 2", "quiet 1", "quiet 4"]);
  });
});

describe("who no longer waits", () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it("past the deadline is turned away with 408, and told not to come again", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    const admission = createAdmission({ slots: 0.8, maxWaiting: 10 });
    const holder = await admission.enter(ticket());
    const start = performance.now();
    const late = refusal(admission.enter(ticket({ deadline: start + 500 })));
    const patient = admission.enter(ticket({ deadline: start + 2 ** 40 }));
    vi.advanceTimersByTime(499);
    expect(admission.waiting).toBe(2);
    vi.advanceTimersByTime(1);
    expect(admission.waiting).toBe(1);
    expect(await late).toEqual({
      status: 408,
      code: "deadline_exceeded",
      headers: { "x-should-retry": "false" },
    });
    expect(await refusal(admission.enter(ticket({ deadline: start })))).toMatchObject({ status: 408 });
    // Further away than a timer reaches.
    vi.advanceTimersByTime(2 ** 32);
    expect(admission.waiting).toBe(1);
    holder.leave();
    (await patient).leave();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("is never let in after the deadline, even where the timer comes late", async () => {
    const { admission, holder } = await held();
    const late = refusal(admission.enter(ticket({ deadline: 1000 })));
    const next = admission.enter(ticket());
    clock = 1000;
    holder.leave();
    expect(await late).toMatchObject({ status: 408 });
    await next;
  });

  it("leaves at once when its client does, at no cost to its key", async () => {
    const { admission, holder } = await held();
    const client = new AbortController();
    const gone = admission.enter(ticket({ key: "b", tokens: 100_000, signal: client.signal }));
    const seen: string[] = [];
    const others = ["b", "a"].map((key) => pass(admission, { as: key, key, tokens: 2048 }, seen));
    client.abort(new Error("closed"));
    expect(admission.waiting).toBe(2);
    await expect(gone).rejects.toMatchObject({ code: "ABORTED", cause: { message: "closed" } });
    holder.leave();
    await Promise.all(others);
    expect(seen).toEqual(["b", "a"]);
    await expect(admission.enter(ticket({ signal: client.signal }))).rejects.toMatchObject({ code: "ABORTED" });
  });

  it("makes room for the next where it was all that kept it out", async () => {
    const admission = createAdmission({ slots: 4, maxWaiting: 100, now });
    await admission.enter(ticket());
    const client = new AbortController();
    const large = admission.enter(ticket({ slots: 5, signal: client.signal }));
    const small = admission.enter(ticket());
    client.abort();
    await expect(large).rejects.toMatchObject({ code: "ABORTED" });
    await small;
  });

  it("lets in none of those who share its signal", async () => {
    const admission = createAdmission({ slots: 4, maxWaiting: 100, now });
    await admission.enter(ticket());
    const client = new AbortController();
    const gone = [5, 1, 1].map((slots) => admission.enter(ticket({ slots, signal: client.signal })));
    client.abort();
    for (const one of gone) await expect(one).rejects.toMatchObject({ code: "ABORTED" });
    expect([admission.running, admission.waiting]).toEqual([1, 0]);
  });

  it("once inside keeps its slots until it leaves, when the engine is done with it", async () => {
    const { admission, holder } = await held();
    const client = new AbortController();
    const inside = admission.enter(ticket({ signal: client.signal }));
    holder.leave();
    const { leave } = await inside;
    const next = admission.enter(ticket());
    client.abort();
    expect([admission.running, admission.waiting]).toEqual([1, 1]);
    leave();
    await next;
  });

  it("is told why when all are turned away; those inside are not concerned", async () => {
    const { admission, holder } = await held();
    const reason = new HttpError(503, "The server is going down.");
    const waiting = [admission.enter(ticket()), admission.enter(ticket({ priority: "batch" }))];
    admission.close(reason);
    for (const one of waiting) await expect(one).rejects.toBe(reason);
    holder.leave();
    await expect(admission.enter(ticket())).rejects.toBe(reason);
    expect([admission.running, admission.waiting]).toEqual([0, 0]);
  });
});
