import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { toConversationRecord } from "../conversation/record.ts";
import type { TokenChain } from "../conversation/trajectory.ts";
import { fakeGroup } from "../test-support/fake-group.ts";
import { exampleRecords } from "./example-records.ts";
import { type RecordedConversation, readTrajectories, trajectorySteps, writeTrajectories } from "./trajectories.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "trajectories-"));
});
afterEach(() => rmSync(dir, { recursive: true }));

const chainOf = (length: number, sampledFrom: number, more: Partial<TokenChain> = {}): TokenChain => ({
  tokens: Int32Array.from({ length }, (_, i) => 70_000 * i),
  logprobs: Float32Array.from({ length }, (_, i) => (i < sampledFrom ? 0 : -i / 8)),
  learn: Uint8Array.from({ length }, (_, i) => (i < sampledFrom ? 0 : 1)),
  turn: Int32Array.from({ length }, (_, i) => (i < sampledFrom ? -1 : 1)),
  ...more,
});

function conversations(): RecordedConversation[] {
  const [base] = fakeGroup("s", [{ reward: 1 }]).trajectories;
  const shaped = chainOf(5, 3, { samplerLogprobs: Float32Array.of(0, 0, 0, -1, -2) });
  const made = [[chainOf(7, 4)], [chainOf(3, 0), shaped], []];
  return made.map((chains, i) => ({
    record: toConversationRecord({ ...base!, id: `c${i}`, chains }, { step: 4, group: "g" }),
    chains,
    ...(i === 0 && { learnt: { advantage: Float32Array.of(1, 2, 3), entropy: Float32Array.of(0.5, 0.25, 0) } }),
  }));
}

const bin = () => join(dir, "trajectories", "step-000004.bin");
const written = (options = { tokens: true }) => {
  writeTrajectories(dir, 4, conversations(), options);
  return readTrajectories(dir, 4);
};

describe("trajectories of a run", () => {
  it("come back with every number of their tokens", () => {
    const read = written();
    const given = conversations();
    expect(read.map(({ id }) => id)).toEqual(["c0", "c1", "c2"]);
    for (const [i, { chains }] of read.entries()) {
      expect(chains.length).toBe(given[i]!.chains.length);
      chains.forEach(({ columns }, c) => {
        const { tokens, logprobs, learn, turn, samplerLogprobs } = columns!;
        const own = given[i]!.chains[c]!;
        expect({ tokens, logprobs, learn, turn }).toEqual({
          tokens: own.tokens,
          logprobs: own.logprobs,
          learn: own.learn,
          turn: own.turn,
        });
        expect(samplerLogprobs).toEqual(own.samplerLogprobs);
      });
    }
    const first = read[0]!.chains[0]!.columns!;
    expect([...first.advantage]).toEqual([1, 2, 3]);
    expect([...first.entropy]).toEqual([0.5, 0.25, 0]);
    expect([...first.ratio]).toEqual([Number.NaN, Number.NaN, Number.NaN]);
    // The first token of a chain is predicted from nothing.
    expect([...read[1]!.chains[0]!.columns!.advantage]).toEqual([Number.NaN, Number.NaN]);
  });

  it("are the same bytes each time, and keep no tokens where none are asked for", () => {
    written();
    const before = readFileSync(bin());
    expect(before.subarray(0, 8).toString()).toBe("ssatraj\n");
    written();
    expect(readFileSync(bin()).equals(before)).toBe(true);
    const [record] = written({ tokens: false });
    expect(record!.chains[0]).toMatchObject({ length: 7, learnLength: 3 });
    expect(record!.chains[0]).not.toHaveProperty("offset");
    expect(() => readFileSync(bin())).toThrow("ENOENT");
  });

  it("are read without tokens when that file is gone", () => {
    written();
    rmSync(bin());
    const [record] = readTrajectories(dir, 4);
    expect(record!.messages.length).toBe(2);
    expect(record!.chains[0]!.columns).toBeUndefined();
  });

  it.each<[string, (data: Buffer) => Buffer | number]>([
    ["is cut in its head", () => 9],
    ["is cut in its table", () => 60],
    ["is cut in its numbers", (data) => data.length - 8],
    ["is not one", (data) => data.fill(0, 0, 3)],
    ["has a flipped bit", (data) => data.fill(data.at(-30)! ^ 4, data.length - 30, data.length - 29)],
    ["is of another version", (data) => data.fill(9, 8, 9)],
    ["has a table that is no JSON", (data) => data.fill(33, 16, 17)],
    [
      "has a table that makes no sense",
      (data) => Buffer.from(data.toString("latin1").replace('"at":0', '"at":x'), "latin1"),
    ],
    [
      "lies about where a column is",
      (data) => Buffer.from(data.toString("latin1").replace('"at":0}', '"at":3}'), "latin1"),
    ],
  ])("refuse, by name, a file of tokens that %s", (_, change) => {
    written();
    const changed = change(readFileSync(bin()));
    if (typeof changed === "number") truncateSync(bin(), changed);
    else writeFileSync(bin(), changed);
    const error = expect.objectContaining({ code: "INVALID_DATA", message: expect.stringContaining(bin()) });
    expect(() => readTrajectories(dir, 4)).toThrow(error);
  });

  it("refuse a file of tokens that belongs to others", () => {
    writeTrajectories(dir, 4, conversations().slice(0, 1), { tokens: true });
    const other = readFileSync(bin());
    written();
    writeFileSync(bin(), other);
    expect(() => readTrajectories(dir, 4)).toThrow("is not that of the conversations beside it");
  });

  it("name the steps there are when another is asked for", () => {
    expect(trajectorySteps(dir)).toEqual([]);
    expect(() => readTrajectories(dir, 1)).toThrow("The run kept none");
    written();
    writeTrajectories(dir, 12, [], { tokens: true });
    expect(trajectorySteps(dir)).toEqual([4, 12]);
    expect(readTrajectories(dir, 12)).toEqual([]);
    expect(() => readTrajectories(dir, 5)).toThrow("steps 4, 12");
  });

  it("name file and line of a record that is damaged", () => {
    written();
    writeFileSync(join(dir, "trajectories", "step-000004.jsonl"), '{"messages":[]}\n{"messages":[');
    expect(() => readTrajectories(dir, 4)).toThrow(/step-000004\.jsonl, line 2: not valid JSON/);
  });
});

describe("examples of learners from data", () => {
  const chain = { tokens: Int32Array.of(1, 2, 3, 4), learn: Uint8Array.of(0, 0, 1, 1) };

  it("are written in the same record, pairs with their sides", () => {
    const messages = [{ role: "user" as const, content: "Hi" }];
    const reference = Float32Array.of(-1, -2);
    const records = exampleRecords(2, [
      { id: "e1", chains: [chain], messages },
      {
        id: "p1-chosen",
        chains: [chain],
        pair: "p1",
        side: "chosen",
        learnt: { reference, logprobs: Float32Array.of(-0.5, -0.25) },
      },
      { id: "p1-rejected", chains: [chain], pair: "p1", side: "rejected" },
    ]);
    writeTrajectories(dir, 2, records, { tokens: true });
    const [example, chosen, rejected] = readTrajectories(dir, 2);
    expect(example).toMatchObject({ id: "e1", step: 2, messages });
    const { tokens, learn, turn, logprobs } = example!.chains[0]!.columns!;
    expect({ tokens, learn }).toEqual(chain);
    expect([...turn]).toEqual([-1, -1, -1, -1]);
    // No pass was asked.
    expect([...logprobs]).toEqual(Array(4).fill(Number.NaN));
    expect([...chosen!.chains[0]!.columns!.logprobs]).toEqual([0, 0, -0.5, -0.25]);
    expect(chosen).toMatchObject({ group: "p1", side: "chosen" });
    expect(rejected).toMatchObject({ group: "p1", side: "rejected" });
    expect(chosen!.chains[0]!.columns!.reference).toEqual(reference);
  });

  it("are refused when their numbers are not one a learn token", () => {
    const records = exampleRecords(2, [{ id: "e1", chains: [chain], learnt: { value: new Float32Array(3) } }]);
    expect(() => writeTrajectories(dir, 2, records, { tokens: true })).toThrow(
      'The conversation e1 has 2 tokens to learn from, and 3 numbers "value".',
    );
  });
});
