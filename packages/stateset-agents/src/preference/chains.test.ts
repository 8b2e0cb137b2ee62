/** Pairs of conversations whose template printed their past anew: each side has several chains. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { learnPlaces } from "../conversation/learn-tokens.ts";
import { buildTokenTree } from "../conversation/token-tree.ts";
import type { TokenChain, TrajectoryGroup } from "../conversation/trajectory.ts";
import type { Policy } from "../policy/policy.ts";
import { readTrajectories } from "../run/trajectories.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { type PairChains, pairsFromGroups } from "./pair.ts";
import { ReferenceScores } from "./reference-scores.ts";
import { evaluatePreference, trainPreference } from "./train-preference.ts";

const root = mkdtempSync(join(tmpdir(), "chains-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const { tokenizer, idOf } = createTablePolicy();
const ids = (text: string) => text.split(" ").map(idOf);

function chain(prompt: string, reply: string, turn: number): TokenChain {
  const tokens = Int32Array.of(...ids(prompt), ...ids(reply));
  const own = Array.from(tokens, (_, i) => i >= ids(prompt).length);
  return {
    tokens,
    logprobs: Float32Array.from(own, (one) => (one ? -1 : 0)),
    learn: Uint8Array.from(own, Number),
    turn: Int32Array.from(own, (one) => (one ? turn : -1)),
  };
}

/** Two replies in two chains; the second prompt does not hold the first reply. */
const conversation = (score: number, first: string, second: string): TrajectoryGroup["trajectories"][number] => ({
  id: first,
  scenarioId: "s",
  turns: [],
  chains: [chain("order late", first, 1), chain("help card", second, 3)],
  reward: { score, breakdown: {} },
  ended: "done",
  temperature: 1,
  stub: false,
  metadata: {},
});

const group = (...trajectories: TrajectoryGroup["trajectories"]) => ({ id: "g", scenarioId: "s", trajectories });
const groups = [group(conversation(1, "sorry please", "yes"), conversation(0, "no no", "yes"))];

const textOf = (side: PairChains["chosen"]) =>
  side.map(({ tokens, learn }) => tokenizer.decode(tokens.filter((_, i) => learn[i] === 1)));

/** Of all learn tokens of a side, added up. */
async function logprobOf(policy: Policy, side: PairChains["chosen"]): Promise<number> {
  const { tree, positions } = buildTokenTree(side);
  const { logprobs } = await policy.forward(tree, { grad: false });
  return side.flatMap((own, c) => learnPlaces(own).map((i) => logprobs[positions[c]![i]!]!)).reduce((a, b) => a + b, 0);
}

describe("a side of a pair is all of its chains", () => {
  it("also where the sides differ in an earlier one alone", () => {
    const [pair, ...others] = pairsFromGroups(groups);
    expect(others).toEqual([]);
    expect([textOf(pair!.chosen), textOf(pair!.rejected)]).toEqual([
      ["sorry please", "yes"],
      ["no no", "yes"],
    ]);
    // Nothing tells these two apart.
    expect(pairsFromGroups([group(conversation(1, "ok", "yes"), conversation(0, "ok", "yes"))])).toEqual([]);
  });

  it("in the loss and in the reference: the margin is of the sums over both", async () => {
    const [pair] = pairsFromGroups([group(conversation(1, "sorry please", "yes"), conversation(0, "no", "well"))]);
    const policy = createTablePolicy({ spread: 1 });
    const reference = await policy.reference("present");
    const before = await Promise.all([pair!.chosen, pair!.rejected].map((side) => logprobOf(policy, side)));
    const { metrics } = (await trainPreference({ policy, dir: false, pairs: [pair!], epochs: 5, learningRate: 0.1 }))
      .run;
    expect(metrics.length).toBeGreaterThan(0);
    const after = await Promise.all([pair!.chosen, pair!.rejected].map((side) => logprobOf(policy, side)));
    const measured = await evaluatePreference(policy, [pair!], { beta: 0.5, reference });
    expect(measured.margin).toBeGreaterThan(0);
    expect(measured.margin).toBeCloseTo(0.5 * (after[0]! - before[0]! - (after[1]! - before[1]!)), 4);
  });

  it("in what is learnt: the first replies are told apart", async () => {
    const policy = createTablePolicy({ spread: 1 });
    const [pair] = pairsFromGroups(groups);
    const first = async () => {
      const [chosen, rejected] = [pair!.chosen[0]!, pair!.rejected[0]!];
      return (await logprobOf(policy, [chosen])) - (await logprobOf(policy, [rejected]));
    };
    const before = await first();
    await trainPreference({ policy, dir: false, pairs: [pair!], epochs: 10, learningRate: 0.1 });
    expect(await first()).toBeGreaterThan(before + 1);
  });

  it("in the files of a run, and in what its checkpoints keep of the reference", async () => {
    const pairs = pairsFromGroups(groups);
    const policy = createTablePolicy({ spread: 1 });
    const dir = join(root, "run");
    await trainPreference({ policy, dir, pairs, epochs: 1, trajectories: { every: 1 } });
    expect(
      readTrajectories(dir, 1).map(({ side, chains }) => [side, chains.map(({ columns }) => columns!.tokens)]),
    ).toEqual((["chosen", "rejected"] as const).map((side) => [side, pairs[0]![side].map(({ tokens }) => tokens)]));
    const scores = () => new ReferenceScores({ policy, of: "start", tokenBudget: 99, pairs, heldOut: undefined });
    const [made, kept] = [scores(), scores()];
    await made.prepare(undefined);
    await made.snapshot(join(root, "scores"));
    await kept.restore(join(root, "scores"));
    expect(kept.pairsOf([0])).toEqual(made.pairsOf([0]));
    expect(kept.pairsOf([0])[0]!.refChosen).toHaveLength(3);
  });
});
