import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { RunProgress } from "../run/callbacks.ts";
import type { RunEvent } from "../run/event.ts";
import { FunctionReward, politeShare, quickRun, tableAgent, tableScenarios } from "../test-support/table-training.ts";
import { heldOutProblems } from "./held-out.ts";
import { train } from "./train.ts";

const root = mkdtempSync(join(tmpdir(), "selection-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const heldOut = Array.from({ length: 10 }, (_, i) => ({ id: `held-${i}`, userResponses: ["help card", "order no"] }));
const polite = new FunctionReward(politeShare);
/** The worse, the more of it is learnt: evaluations, which learn nothing, are told from training by the scenario. */
const misleading = new FunctionReward((turns) => (turns[0]!.content === "help card" ? 1 : -1) * politeShare(turns));
const options = { ...quickRun, steps: 6, heldOut, evaluation: { every: 2, samples: 4 } };
const eventsOf = (dir: string) =>
  readFileSync(join(dir, "events.jsonl"), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as RunEvent);

it("measures what selects and what is reported at once before the first step, and says how far both are", async () => {
  const told: number[][] = [];
  const onProgress = ({ phase, step, done, of }: RunProgress) =>
    void (phase === "evaluating" && step === 0 && told.push([done!, of!]));
  await train({ ...options, agent: tableAgent().agent, reward: polite, steps: 1, callbacks: { onProgress } });
  // 5 scenarios each, 4 conversations of each.
  expect(told.every(([done, of]) => done! <= of!)).toBe(true);
  expect(told.some(([done, of]) => done === 40 && of === 40)).toBe(true);
});

describe("the weights a run ends with", () => {
  it("are those it began with when no step did better, and it says so", async () => {
    const { agent, policy } = tableAgent();
    const began = Float32Array.from(policy.parameters);
    const dir = join(root, "worse");
    const { run } = await train({ ...options, agent, reward: misleading, dir });
    expect(run.best).toMatchObject({ step: 0, scenarios: 5 });
    expect(run.weights).toEqual({
      step: 0,
      scenarios: 5,
      why: expect.stringMatching(/^those the run began with: no step did better on 5 selection scenarios \(0\.\d+\)$/),
    });
    expect(policy.parameters).toEqual(began);
    // The value after training is of these weights, so it is the value before.
    const { before, after } = run.evaluation!;
    expect(after).toMatchObject({ step: 6, weightsOf: 0, reward: before.reward });
    const events = eventsOf(dir);
    expect(events.at(-1)).toMatchObject({ type: "end", weights: run.weights });
    expect(events.at(-2)).toMatchObject({ type: "evaluation", set: "report", weightsOf: 0 });
    expect(run.metrics[0]).toMatchObject({ step: 0, "selection/count": 5, "report/count": 5 });
  });

  it("are the last step's when that did best", async () => {
    const { run } = await train({ ...options, agent: tableAgent().agent, reward: polite, dir: join(root, "better") });
    expect(run.best!.step).toBe(6);
    expect(run.weights).toMatchObject({ step: 6, why: expect.stringContaining("which did best on 5") as string });
    expect(run.evaluation!.after).not.toHaveProperty("weightsOf");
  });

  it("are the last step's without a folder, with restoreBest off, or with nothing held out; each says why", async () => {
    const why = async (changes: object) => {
      const given = { ...options, agent: tableAgent().agent, reward: misleading, ...changes };
      const { weights, steps } = (await train(given)).run;
      expect(weights!.step).toBe(steps);
      return weights!.why;
    };
    expect(await why({})).toMatch(/no others were kept; the untrained policy did best on 5/);
    const off = { dir: join(root, "off"), evaluation: { ...options.evaluation, restoreBest: false } };
    expect(await why(off)).toMatch(/restoreBest is off; the untrained policy did best/);
    expect(await why({ heldOut: undefined })).toMatch(/nothing was held out/);
  });
});

describe("held-out scenarios", () => {
  it("that training has under another name are warned about", async () => {
    const same = { id: "other", userResponses: ["Refund  order", ...tableScenarios[0]!.userResponses.slice(1)] };
    const { run } = await train({
      ...options,
      steps: 1,
      agent: tableAgent().agent,
      reward: polite,
      heldOut: [...heldOut, same],
    });
    const said = run.warnings.filter(({ kind }) => kind === "held-out");
    expect(said.map(({ message }) => message)).toEqual([
      expect.stringContaining("1 of 11 held-out scenarios have the text"),
    ]);
    expect(heldOutProblems(tableScenarios, tableScenarios)[0]).toContain("4 of 4");
  });

  it("of which there is one, which both selects and reports, are warned about", () => {
    expect(heldOutProblems(tableScenarios, heldOut.slice(0, 1))).toEqual([
      expect.stringContaining("both selects the best checkpoint and is reported"),
    ]);
    expect(heldOutProblems(tableScenarios, heldOut)).toEqual([]);
    const task = (id: string, prompt: string) => ({ id, prompt, goal: "call it" });
    expect(heldOutProblems([task("a", "One?")], [task("b", "Two?"), task("c", "Three?")])).toEqual([]);
    expect(heldOutProblems([task("a", "One?")], [task("b", "one?"), task("c", "Three?")])).toHaveLength(1);
  });

  it("can be played greedily, once each", async () => {
    const evaluation = { ...options.evaluation, temperature: 0 };
    const { run } = await train({ ...options, steps: 1, agent: tableAgent().agent, reward: polite, evaluation });
    expect(run.evaluation!.before.scenarios.map(({ samples }) => samples)).toEqual([1, 1, 1, 1, 1]);
  });
});

describe("how far a step moved the policy", () => {
  it("is measured after the last update, one or several; what one update cannot see of its clipping is left out", async () => {
    const metrics = async (updatesPerRollout: number) => {
      const given = { ...quickRun, steps: 1, agent: tableAgent().agent, reward: polite, updatesPerRollout };
      return (await train(given)).run.metrics[0]!;
    };
    const [once, twice] = [await metrics(1), await metrics(2)];
    expect(once.approxKl).toBeGreaterThan(0);
    expect(once).not.toHaveProperty("clipFraction");
    expect(once.firstRatioMax).toBe(1);
    expect(twice.approxKl).toBeGreaterThan(once.approxKl!);
    expect(twice).toHaveProperty("clipFraction");
  });

  it("says of GEPO what its one update clipped: its ratio is to the group, and is not 1 from the start", async () => {
    const settings = { algorithm: "gepo", epsilonLow: 0.01, epsilonHigh: 0.01 } as const;
    const given = { ...quickRun, steps: 1, agent: tableAgent().agent, reward: polite, ...settings };
    const { run } = await train({ ...given, updatesPerRollout: 1 });
    expect(run.metrics[0]!.firstRatioMax).toBe(1);
    expect(run.metrics[0]!.ratioMax).toBeGreaterThan(1);
    expect(run.metrics[0]!.clipFraction).toBeGreaterThan(0);
  });
});
