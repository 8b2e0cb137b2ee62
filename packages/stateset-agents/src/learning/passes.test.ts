import { expect, it } from "vitest";
import { readVector } from "../../test/read-vector.ts";
import { buildTokenTree } from "../conversation/token-tree.ts";
import type { Policy } from "../policy/policy.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import type { MicroBatch } from "./micro-batch.ts";
import { addGradients, scorePasses } from "./passes.ts";

/** A policy that may have so many passes alive, and what was asked of it, in order. */
function watched(passesInFlight: number) {
  const inner = createTablePolicy({ spread: 1 });
  const calls: string[] = [];
  const names = new Map<unknown, string>();
  const policy: Policy = {
    ...inner,
    capabilities: { ...inner.capabilities, passesInFlight },
    async forward(tree, options) {
      const name = String(tree.tokens[0]);
      calls.push(`forward ${name}`);
      const pass = await inner.forward(tree, options);
      const told = { ...pass, release: () => void calls.push(`release ${name}`) };
      names.set(told, name);
      inners.set(told, pass);
      return told;
    },
    async backward(pass, derivatives) {
      calls.push(`backward ${names.get(pass)}`);
      await inner.backward(inners.get(pass)!, derivatives);
    },
  };
  const inners = new Map<unknown, Awaited<ReturnType<Policy["forward"]>>>();
  return { policy, calls };
}

const batches: MicroBatch[] = [1, 2, 3, 4].map((first, i) => {
  const tokens = Int32Array.of(first, 1, 2, 3);
  const merged = buildTokenTree([{ tokens, learn: Uint8Array.of(0, 1, 1, 1) }]);
  return { members: [i], merged, temperature: 1, places: [Int32Array.of(1, 2, 3)] };
});
const pushed = (pass: { logprobs: Float32Array }) => ({
  loss: 1,
  derivatives: { logprobs: pass.logprobs.map((value) => (value === 0 ? 0 : -1)) },
});

it("has the next pass computed while the loss of one is, where the engine bears two, and gives the same gradient", async () => {
  const [one, two] = [watched(1), watched(2)];
  for (const { policy } of [one, two])
    expect(await addGradients(policy, batches, {}, (_, pass) => pushed(pass))).toBe(4);
  expect(one.calls).toEqual([1, 2, 3, 4].flatMap((n) => [`forward ${n}`, `backward ${n}`]));
  expect(two.calls).toEqual([
    ...["forward 1", "forward 2", "backward 1", "forward 3", "backward 2", "forward 4", "backward 3", "backward 4"],
  ]);
  expect(await readVector(two.policy, "gradients")).toEqual(await readVector(one.policy, "gradients"));
});

it("lets go of passes that were asked for and of every gradient when a loss throws or is no number", async () => {
  for (const fault of ["throws", "NaN"]) {
    const { policy, calls } = watched(3);
    const share = (batch: MicroBatch, pass: { logprobs: Float32Array }) => {
      if (batch.members[0] === 1 && fault === "throws") throw new Error("a loss that fails");
      return { ...pushed(pass), loss: batch.members[0] === 1 ? Number.NaN : 1 };
    };
    const adding = addGradients(policy, batches, {}, share);
    if (fault === "throws") await expect(adding).rejects.toThrow("a loss that fails");
    else expect(await adding).toBeNaN();
    await new Promise((resolve) => setImmediate(resolve));
    expect(calls.filter((call) => call.startsWith("release")).sort()).toEqual(["release 2", "release 3", "release 4"]);
    if (fault === "throws") expect((await readVector(policy, "gradients")).every((value) => value === 0)).toBe(true);
  }
});

it("stops between passes when it is told to, and scores ahead of the reader", async () => {
  const { policy, calls } = watched(2);
  const stop = new AbortController();
  const seen: number[] = [];
  const scoring = scorePasses(
    policy,
    batches,
    {},
    ({ members }) => {
      seen.push(members[0]!);
      if (seen.length === 2) stop.abort();
    },
    stop.signal,
  );
  await expect(scoring).rejects.toMatchObject({ code: "ABORTED" });
  expect(seen).toEqual([0, 1]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(calls.filter((call) => call.startsWith("forward"))).toHaveLength(3);
  expect(calls.filter((call) => call.startsWith("release"))).toHaveLength(3);
});
