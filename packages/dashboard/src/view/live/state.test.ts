import { describe, expect, it } from "vitest";
import type { LiveConversation, RunRow } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { emptyState, type Happened, happen } from "./state.ts";

const row = (key: string, state: RunRow["state"] = "running") => ({ key, state }) as RunRow;
const conversation = (run: string, seq: number, over: Partial<LiveConversation> = {}) =>
  ({ run, seq, step: 1, id: `c${seq}`, reward: null, failure: null, ...over }) as LiveConversation;
const after = (only: string | undefined, ...all: Happened[]) => all.reduce(happen, emptyState(only));
const said = (run: string, ...conversations: LiveConversation[]): Happened => ({
  kind: "conversations",
  event: { run, conversations },
});
const seqs = ({ conversations }: ReturnType<typeof after>) => [...conversations.values()].map(({ seq }) => seq);

describe("what Live knows", () => {
  it("watches every run that trains, and keeps one that ended", () => {
    const rows: Happened = { kind: "rows", rows: [row("a"), row("old", "finished")] };
    const ended: Happened = { kind: "runs", event: { rows: [row("a", "finished"), row("b")], gone: [] } };
    const state = after(undefined, rows, ended);
    expect([...state.rows.values()].map(({ key, state: is }) => `${key} ${is}`)).toEqual(["a finished", "b running"]);
  });

  it("watches one run whatever its state, and no other", () => {
    const state = after("a", { kind: "rows", rows: [row("a", "lost"), row("b")] }, said("b", conversation("b", 0)));
    expect([...state.rows.keys()]).toEqual(["a"]);
    expect(state.conversations.size).toBe(0);
  });

  it("misses nothing that comes while it asks, and takes back what the answer no longer has", () => {
    const state = after(
      "a",
      said("a", conversation("a", 1), conversation("a", 2)),
      { kind: "ask", run: "a" },
      said("a", conversation("a", 3, { reward: 1 })),
      { kind: "answer", run: "a", conversations: [conversation("a", 1)], problems: [] },
    );
    expect(seqs(state)).toEqual([1, 3]);
    expect(state.asking.size).toBe(0);
  });

  it("holds nothing twice when a stream says again what the answer had", () => {
    const answer: Happened = { kind: "answer", run: "a", conversations: [conversation("a", 1)], problems: [] };
    expect(seqs(after("a", { kind: "ask", run: "a" }, answer, said("a", conversation("a", 1))))).toEqual([1]);
  });

  it("follows a resume back", () => {
    const state = after("a", said("a", conversation("a", 1), conversation("a", 2, { step: 2 })), {
      kind: "steps",
      event: { run: "a", step: 1, cut: true },
    });
    expect(seqs(state)).toEqual([1]);
  });

  it("names a run that vanished, until it is there again", () => {
    const rows: Happened = { kind: "rows", rows: [row("a"), row("b")] };
    const state = after(undefined, rows, said("a", conversation("a", 1)), {
      kind: "runs",
      event: { rows: [], gone: ["a", "unseen"] },
    });
    expect(state.gone).toEqual(["a"]);
    expect([...state.rows.keys(), ...seqs(state)]).toEqual(["b"]);
    expect(happen(state, rows).gone).toEqual([]);
  });
});
