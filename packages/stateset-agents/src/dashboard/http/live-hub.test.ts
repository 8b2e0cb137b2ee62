import { afterEach, expect, it, onTestFinished, vi } from "vitest";
import { EventStream } from "../../server/event-stream.ts";
import type { Change } from "../read/reader.ts";
import { createLiveHub, type LiveHubOptions } from "./live-hub.ts";

afterEach(() => void vi.useRealTimers());

const step = (n: number): Change => ({ kind: "steps", event: { run: "a", step: n, cut: false } });

/** A hub whose changes are what the test says, looked at when the test lets time go by. */
function opened(options: LiveHubOptions = {}) {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  const waiting: Change[] = [];
  let looks = 0;
  const changes = vi.fn(async () => {
    looks++;
    return waiting.splice(0);
  });
  const hub = createLiveHub(changes, { everyMs: 300, ...options });
  onTestFinished(() => hub.close());
  const listen = (lastId?: string) => {
    const stream = new EventStream({ keepAliveMs: 1e6, stalledMs: 1e6, onLeft: () => {} });
    onTestFinished(() => stream.end());
    hub.listen(stream, lastId);
    const reader = stream.body.getReader();
    let text = "";
    void (async () => {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        text += Buffer.from(value).toString("utf8");
      }
    })();
    return { text: () => text, stream, ids: () => [...text.matchAll(/^id: (.+)$/gm)].map(([, id]) => id!) };
  };
  const tick = () => vi.advanceTimersByTimeAsync(300);
  return { hub, listen, tick, looks: () => looks, happen: (...some: Change[]) => void waiting.push(...some) };
}

const steps = (text: string) => [...text.matchAll(/"step":(\d+)/g)].map(([, n]) => Number(n));

it("tells everybody, and looks as often for ten as for one", async () => {
  const { listen, tick, looks, happen } = opened();
  const all = Array.from({ length: 10 }, () => listen());
  await tick();
  const before = looks();
  happen(step(1), step(2));
  await tick();
  expect(looks()).toBe(before + 1);
  for (const one of all) expect(steps(one.text())).toEqual([1, 2]);
  expect(all[0]!.text()).toMatch(/event: steps\nid: [0-9a-f]{12}-1\ndata: \{"run":"a","step":1,"cut":false\}\n\n/);
  expect(all[0]!.text()).toMatch(/^id: [0-9a-f]{12}-0\nretry: 1000\n\n/);
});

it("does not look while nobody listens, and forgets nothing of what happened", async () => {
  const { hub, listen, tick, looks, happen } = opened();
  await hub.begin();
  expect(looks()).toBe(1);
  const one = listen();
  await tick();
  one.stream.end();
  await tick();
  const idle = looks();
  await tick();
  await tick();
  expect(looks()).toBe(idle);
  happen(step(7));
  const other = listen(one.ids().at(-1));
  await tick();
  expect(steps(other.text())).toEqual([7]);
});

it("gives who comes back what he missed, each once, and nothing he had", async () => {
  const { listen, tick, happen } = opened();
  const stays = listen();
  const leaves = listen();
  happen(step(1));
  await tick();
  leaves.stream.end();
  happen(step(2), step(3));
  await tick();
  const back = listen(leaves.ids().at(-1));
  happen(step(4));
  await tick();
  expect(steps(stays.text())).toEqual([1, 2, 3, 4]);
  expect([...steps(leaves.text()), ...steps(back.text())]).toEqual([1, 2, 3, 4]);
});

it("says reset where that is gone, and to who comes from another server", async () => {
  const { listen, tick, happen } = opened({ kept: 3 });
  const first = listen();
  await tick();
  const old = first.ids()[0]!;
  happen(step(1), step(2), step(3), step(4));
  await tick();
  const said = await Promise.all(
    [old, "0123456789ab-1", "nonsense", `${old.split("-")[0]}-99`, ""].map(async (id) => {
      const { text } = listen(id);
      await vi.advanceTimersByTimeAsync(1);
      return /^event: reset\nid: [0-9a-f]{12}-4\ndata: \{"reason"/.test(text());
    }),
  );
  expect(said).toEqual([true, true, true, true, true]);
  const just = listen(`${old.split("-")[0]}-1`);
  await tick();
  expect(steps(just.text())).toEqual([2, 3, 4]);
});

it("keeps no more than it may, however large events are", async () => {
  const { listen, tick, happen } = opened({ keptBytes: 100 });
  const first = listen();
  happen(step(1), step(2), step(3), step(4));
  await tick();
  const late = listen(`${first.ids()[0]!.split("-")[0]}-0`);
  await tick();
  expect(late.text()).toContain("event: reset");
});

it("tells newcomers of the last moments, in which they may have read the data", async () => {
  const { listen, tick, happen } = opened({ recentMs: 1000 });
  listen();
  happen(step(1));
  await tick();
  await vi.advanceTimersByTimeAsync(900);
  happen(step(2));
  await tick();
  const late = listen();
  await tick();
  expect(steps(late.text())).toEqual([2]);
});

it("goes on where looking failed, and says so once", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const onFailure = vi.fn();
  let bad = true;
  const hub = createLiveHub(
    async () => {
      if (bad) throw new Error("no folder");
      return [step(1)];
    },
    { onFailure, everyMs: 300 },
  );
  onTestFinished(() => hub.close());
  const stream = new EventStream({ keepAliveMs: 1e6, stalledMs: 1e6, onLeft: () => {} });
  hub.listen(stream, undefined);
  await vi.advanceTimersByTimeAsync(1000);
  expect(onFailure).toHaveBeenCalledOnce();
  bad = false;
  await vi.advanceTimersByTimeAsync(300);
  stream.end();
  expect(await new Response(stream.body).text()).toContain("event: steps");
});
