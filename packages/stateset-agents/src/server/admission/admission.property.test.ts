/** Whoever comes, goes and leaves in whatever order: the limit holds, and nobody is lost. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { isAbort } from "../../abort.ts";
import { HttpError } from "../http-error.ts";
import { type Admitted, createAdmission, priorities, type Ticket } from "./admission.ts";

const arrivals = fc.record({
  do: fc.constant("enter" as const),
  key: fc.constantFrom("a", "b", "c"),
  priority: fc.constantFrom(...priorities),
  tokens: fc.integer({ min: 0, max: 20_000 }),
  slots: fc.oneof({ weight: 5, arbitrary: fc.integer({ min: 1, max: 4 }) }, { weight: 1, arbitrary: fc.constant(40) }),
  patience: fc.option(fc.integer({ min: 0, max: 100_000 }), { nil: undefined }),
});
const changes = fc.record({ do: fc.constantFrom("leave", "abort"), which: fc.nat() });
const waits = fc.record({ do: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 70_000 }) });
const stories = fc.array(fc.oneof({ weight: 4, arbitrary: arrivals }, { weight: 4, arbitrary: changes }, waits), {
  maxLength: 120,
  size: "max",
});

interface Guest {
  ticket: Ticket;
  client: AbortController;
  came: number;
  state: "waiting" | "inside" | "left" | "refused";
  settled: number;
  admitted?: Admitted;
}

/** Long enough for every promise that was settled to tell. */
const told = async () => {
  for (let i = 0; i < 4; i++) await Promise.resolve();
};

it("never hands over too much, lets in nobody who left, and settles every ticket once", async () => {
  const tale = fc.asyncProperty(
    stories,
    fc.integer({ min: 1, max: 6 }),
    fc.nat({ max: 12 }),
    async (story, slots, maxWaiting) => {
      const limit = Math.ceil(slots * 1.25);
      let clock = 0;
      const admission = createAdmission({ slots, maxWaiting, now: () => clock });
      const guests: Guest[] = [];
      const inState = (state: Guest["state"]) => guests.filter((guest) => guest.state === state);

      const enter = ({ patience, ...asked }: Omit<Ticket, "signal"> & { patience: number | undefined }) => {
        const client = new AbortController();
        const deadline = patience === undefined ? undefined : clock + patience;
        const ticket = { ...asked, deadline, signal: client.signal };
        const guest: Guest = { ticket, client, came: clock, state: "waiting", settled: 0 };
        guests.push(guest);
        void admission.enter(ticket).then(
          (admitted) => {
            guest.settled++;
            guest.state = "inside";
            guest.admitted = admitted;
            expect(client.signal.aborted).toBe(false);
            expect(deadline ?? clock + 1).toBeGreaterThan(clock);
            expect(admitted.queuedMs).toBe(clock - guest.came);
          },
          (error: unknown) => {
            guest.settled++;
            guest.state = "refused";
            expect(isAbort(error)).toBe(client.signal.aborted);
            if (!isAbort(error)) expect([408, 429]).toContain((error as HttpError).status);
          },
        );
      };

      for (const event of story) {
        if (event.do === "enter") enter(event);
        else if (event.do === "wait") clock += event.ms;
        else {
          const some = inState(event.do === "leave" ? "inside" : "waiting");
          const guest = some[event.which % some.length];
          if (!guest) continue;
          if (event.do === "abort") guest.client.abort();
          else {
            guest.state = "left";
            // Nothing comes of leaving twice.
            guest.admitted!.leave();
            guest.admitted!.leave();
          }
        }
        await told();
        const inside = inState("inside");
        const taken = inside.reduce((sum, { ticket }) => sum + ticket.slots, 0);
        expect(admission.running).toBe(taken);
        expect(taken <= limit || inside.length === 1).toBe(true);
        expect(admission.waiting).toBe(inState("waiting").length);
        expect(admission.waiting).toBeLessThanOrEqual(maxWaiting);
        // Somebody is always served.
        if (admission.waiting > 0) expect(inside.length).toBeGreaterThan(0);
      }
      for (let inside = inState("inside"); inside.length > 0; inside = inState("inside")) {
        for (const guest of inside) {
          guest.state = "left";
          guest.admitted!.leave();
        }
        await told();
      }
      expect(guests.map(({ settled }) => settled)).toEqual(guests.map(() => 1));
      expect([admission.running, admission.waiting]).toEqual([0, 0]);
    },
  );
  await fc.assert(tale, { numRuns: 300 });
});

it("turns away at closing all who wait, and nobody twice", async () => {
  const admission = createAdmission({ slots: 1, maxWaiting: 100 });
  const reason = new HttpError(503, "Going down.");
  const all = Array.from({ length: 50 }, (_, i) =>
    admission.enter({ key: String(i % 3), priority: priorities[i % 3]!, tokens: i, slots: 1 }),
  );
  admission.close(reason);
  admission.close(reason);
  const outcomes = await Promise.allSettled(all);
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(2);
  expect(admission.waiting).toBe(0);
});
