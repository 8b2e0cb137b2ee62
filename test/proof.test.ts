/** What `npm run proof` decides by: the reward, the budgets, and the comparison with SFT on best-of-N. The training itself is not run here. */
import { describe, expect, it } from "vitest";
import { against, comparisons, page, table } from "../benchmarks/proof/report.ts";
import { algorithms, baselines, run } from "../benchmarks/proof/settings.ts";
import { plotStarter } from "../benchmarks/proof/starter/plot.ts";
import { starterSection } from "../benchmarks/proof/starter/report.ts";
import { conversationsPerStep, harvestingOf, passes, rounds, steps } from "../benchmarks/proof/starter/settings.ts";
import { type TaskName, taskReward, tasks, turnReward } from "../benchmarks/proof/starter/tasks.ts";
import { find, judgeStarter, type StarterRun } from "../benchmarks/proof/starter/verdict.ts";
import { LetterReward, letterEnvironment, task } from "../benchmarks/proof/task.ts";
import { compare, conversationsTo, type Verdict } from "../benchmarks/proof/verdict.ts";

function verdict(means: readonly number[], standardError = 0.005): Verdict {
  const after = means.reduce((sum, mean) => sum + mean, 0) / means.length;
  const bySeed = means.map((mean, i) => ({ seed: i + 1, mean, low: mean - 0.01, high: mean + 0.01, standardError }));
  const numbers = { seconds: 1, updates: 10, updatesToHalf: 4, conversations: 1000, seeds: means.length };
  const curve = [0.3, 0.8, 0.95, 0.85, 0.96];
  return { before: 0.3, after, flipped: 0, rises: true, falls: true, bySeed, curve, flippedCurve: curve, ...numbers };
}

describe("the proof's comparison", () => {
  const baseline = verdict([0.8, 0.7, 0.75]);

  it("calls better or worse only what the interval separates from zero", () => {
    expect(compare(verdict([0.99, 0.98, 0.99]), baseline)).toMatchObject({ verdict: "better" });
    expect(compare(baseline, verdict([0.99, 0.98, 0.99]))).toMatchObject({ verdict: "worse" });
    expect(compare(verdict([0.82, 0.68, 0.76]), baseline)).toMatchObject({ verdict: "even" });
    expect(compare(baseline, baseline)).toMatchObject({ mean: 0, verdict: "even" });
  });

  it("counts one bad seed as doubt, and the noise of few conversations too", () => {
    expect(compare(verdict([0.99, 0.99, 0.6]), baseline)!.verdict).toBe("even");
    expect(compare(verdict([0.83, 0.73, 0.78], 0.001), verdict([0.8, 0.7, 0.75], 0.001))!.verdict).toBe("better");
    expect(compare(verdict([0.83, 0.73, 0.78], 0.1), baseline)!.verdict).toBe("even");
  });

  it("pairs seeds, and says nothing where none is shared", () => {
    const difference = compare(verdict([0.9]), baseline)!;
    expect(difference.mean).toBeCloseTo(0.1, 12);
    expect(difference.low).toBeGreaterThan(0.07);
    const elsewhere = { ...baseline, bySeed: baseline.bySeed.map((own) => ({ ...own, seed: own.seed + 10 })) };
    expect(compare(verdict([0.9]), elsewhere)).toBeUndefined();
  });

  it("shows the decision in the table", () => {
    const known = { grpo: verdict([0.99, 0.98, 0.99]), a2c: verdict([0.6, 0.61, 0.6]), "sft-best-of-n": baseline };
    const rows = table(known).split("\n");
    expect(rows[2]).toMatch(/^\| grpo .*\| yes \| yes \| yes \|/);
    expect(rows[3]).toMatch(/^\| a2c .*\| yes \| yes \| NO \|/);
    expect(rows[4]).toMatch(/^\| sft-best-of-n .*\| yes \| yes \| – \|/);
    expect(comparisons(known)).toContain("one round (0.750)");
    expect(comparisons({ grpo: known.grpo })).toBeUndefined();
    expect(Object.keys(against("grpo", known))).toEqual(["sft-best-of-n"]);
  });

  it("counts conversations until the curve stays above a share", () => {
    expect(conversationsTo(0.9, verdict([0.97]))).toBe(800);
    expect(conversationsTo(0.9, verdict([0.85]))).toBeUndefined();
  });
});

describe("the proof's page", () => {
  it("says which algorithms have not been run", () => {
    const verdicts = { grpo: verdict([0.9]), a2c: verdict([0.9]), "sft-best-of-n": verdict([0.7]) };
    const letters = { settings: {}, verdicts, machines: ["one"] };
    const missing = Object.keys(algorithms).filter((name) => name !== "grpo" && name !== "a2c");
    expect(missing).toContain("luspo");
    const text = page(letters, "");
    expect(text).toContain(
      `Not run yet, and no part of what is said here: ${missing.map((name) => `\`${name}\``).join(", ")}.`,
    );
    expect(text).toContain("Of 2 algorithms:");
    const all = Object.fromEntries(Object.keys(algorithms).map((name) => [name, verdict([0.9])]));
    expect(page({ ...letters, verdicts: all }, "")).not.toContain("Not run yet");
  });
});

describe("the proof's task", () => {
  const talk = (first: string, second: string) => ({
    turns: [
      { role: "user" as const, content: "low" },
      { role: "assistant" as const, content: first },
      { role: "user" as const, content: "high" },
      { role: "assistant" as const, content: second },
    ],
  });

  it("rewards the letters that were asked for", async () => {
    const reward = new LetterReward();
    expect(await reward.compute(talk("abc", "xyz"))).toEqual({ score: 2, breakdown: { share: 1 } });
    expect(await reward.compute(talk("abxy", "xyz"))).toEqual({ score: 1, breakdown: { share: 0.75 } });
    expect(await reward.compute(talk("", "mmm"))).toEqual({ score: -2, breakdown: { share: 0 } });
    const flipped = await new LetterReward(-1).compute(talk("abc", "xyz"));
    expect(flipped).toEqual({ score: -2, breakdown: { share: 1 } });
  });

  it("pays a third to whoever does not listen", async () => {
    const reward = new LetterReward();
    let sum = 0;
    for (const { userResponses } of letterEnvironment().scenarios) {
      const turns = userResponses.flatMap((content) => [
        { role: "user" as const, content },
        { role: "assistant" as const, content: "aaapz" },
      ]);
      sum += (await reward.compute({ turns })).breakdown.share!;
    }
    expect(sum / task.scenarios).toBeCloseTo(1 / 3, 12);
  });

  it("gives every baseline as many conversations as the algorithms have, and no fewer updates", () => {
    const conversations = run.steps * run.groupsPerStep * run.groupSize;
    for (const { rounds, n, keep, updates } of Object.values(baselines)) {
      const own = rounds * n * task.scenarios;
      expect(own).toBeGreaterThanOrEqual(conversations);
      expect(own).toBeLessThan(1.05 * conversations);
      expect(rounds * updates).toBeGreaterThanOrEqual(run.steps);
      expect(Number.isInteger(updates)).toBe(true);
      expect(keep).toBeLessThan(n);
    }
  });
});

describe("the proof on the starter model", () => {
  const names = Object.keys(tasks) as TaskName[];
  const talk = (...replies: string[]) => ({
    turns: replies.flatMap((content) => [
      { role: "user" as const, content: "Hello." },
      { role: "assistant" as const, content },
    ]),
  });

  it("holds at least 30 scenarios out of each task, none of them a sentence that was trained on", () => {
    for (const name of names) {
      const { training, heldOut } = tasks[name];
      const trained = new Set(training.map(({ userResponses }) => userResponses?.[0]));
      expect(heldOut.length).toBeGreaterThanOrEqual(30);
      expect(heldOut.filter(({ userResponses }) => trained.has(userResponses?.[0]))).toEqual([]);
      expect(new Set([...training, ...heldOut].map(({ id }) => id)).size).toBe(training.length + heldOut.length);
    }
  });

  it("pays what each task asks for, and its negative with the sign flipped", async () => {
    const score = async (name: TaskName, scenario: object, ...replies: string[]) =>
      (await taskReward(tasks[name]).compute({ ...talk(...replies), scenario: { id: "one", ...scenario } })).score;
    expect(await score("echo", { expected: "hotel" }, "Which hotel would you like?")).toBe(1);
    expect(await score("echo", { expected: "hotel" }, "Where?")).toBe(0.5);
    expect(await score("echo", { expected: "hotel" }, "I have found a hotel.")).toBe(0.5);
    expect(await score("echo", { expected: "hotel" }, "Yes.")).toBe(0);
    expect(await score("delayed", {}, "What is it?", "Which one?", "Done.")).toBe(1);
    expect(await score("delayed", {}, "Okay.", "Which one?", "What else?")).toBe(0.5);
    expect(await score("delayed", {}, "Okay.", "Done.", "What else?")).toBe(0);
    expect(await score("classes", { topic: "trouble" }, "I am sorry to hear that.")).toBe(1);
    expect(await score("classes", { topic: "booking" }, "I am sorry to hear that.")).toBe(0);
    expect(await score("classes", { topic: "booking" }, "For how many people?")).toBe(1);
    expect(await score("classes", { topic: "facts" }, "We open at 9.")).toBe(1);
    expect(await score("classes", { topic: "goodbye" }, "Thank you, goodbye.")).toBe(1);
    expect(await score("classes", { topic: "goodbye" }, "Thank you, anything else?")).toBe(0);
    const flipped = await taskReward(tasks.delayed, -1).compute(talk("What is it?", "Which one?", "Done."));
    expect(flipped.score).toBe(-1);
  });

  it("pays turn by turn the same in all", async () => {
    const { score, turns } = await turnReward(tasks.delayed).compute(talk("What is it?", "Which one?", "Done."));
    expect([score, turns]).toEqual([1, { 1: 0.5, 3: 0.5, 5: 0 }]);
  });

  it("gives the baselines as many conversations as GRPO has, and no fewer updates", () => {
    for (const name of names) {
      for (const inRounds of rounds) {
        const { n, keep, updates } = harvestingOf(name, inRounds, 1e-4);
        expect(inRounds * n * tasks[name].training.length).toBeGreaterThanOrEqual(conversationsPerStep * steps[name]);
        expect(inRounds * updates).toBeGreaterThanOrEqual(steps[name]);
        expect(keep).toBeLessThan(n);
      }
    }
  });

  /** Every scenario `before` on the untrained model; one seed a score after it, with a little noise over scenarios. */
  function runs(before: number, after: readonly number[], flipped: readonly number[]): StarterRun[] {
    const numbers = { updates: 30, conversations: 960, cpuSeconds: 10, settings: "" };
    const scores = (mean: number) => tasks.classes.heldOut.map((_, i) => mean + 0.05 * ((i % 3) - 1));
    const trained = (mean: number, i: number, sign: 1 | -1): StarterRun => ({
      ...{ task: "classes", learner: { by: "defaults", algorithm: "grpo" }, seed: 101 + i, sign },
      ...{ scenarios: scores(mean), ...numbers },
    });
    return [
      { task: "classes", learner: { by: "nothing" }, seed: 0, sign: 1, scenarios: scores(before), ...numbers },
      ...after.map((mean, i) => trained(mean, i, 1)),
      ...flipped.map((mean, i) => trained(mean, i, -1)),
    ];
  }
  const grpo = { by: "defaults", algorithm: "grpo" } as const;

  it("says that one rises only where the mean and every seed do, and falls likewise", () => {
    const clear = judgeStarter(runs(0.4, [0.7, 0.8], [0.2, 0.1]), "classes", grpo)!;
    expect(clear).toMatchObject({ rises: true, flipped: { falls: true } });
    expect(clear.after).toBeCloseTo(0.75, 12);
    expect(clear.pValue).toBeLessThan(0.001);
    expect(clear.classes.booking!.after).toBeCloseTo(0.75, 12);
    const oneSeed = judgeStarter(runs(0.4, [0.9, 0.39], [0.1, 0.41]), "classes", grpo)!;
    expect(oneSeed).toMatchObject({ rises: false, flipped: { falls: false } });
    expect(judgeStarter(runs(0.4, [0.4], [0.4]), "classes", grpo)).toMatchObject({ rises: false, pValue: 1 });
    expect(judgeStarter(runs(0.4, [], []), "classes", grpo)).toBeUndefined();
  });

  it("writes the same page from the same runs, whatever their order", () => {
    const some = runs(0.4, [0.7, 0.8], [0.2, 0.1]);
    const text = starterSection(some, ["a machine"]);
    expect(starterSection([...some].reverse(), ["a machine"])).toBe(text);
    expect(text).toContain("| grpo | 0.400 | 0.750 | 0.700–0.800 | 0.0002 | yes | 0.150 | 0.0002 | yes | 960 | 10 |");
    expect(text).toContain("Machine: a machine.");
    expect(text).toMatch(/Not run yet, and no part of what is said here: `dr-grpo`, .*`sapo`, `gmpo`, `luspo`, /);
    expect(plotStarter(some)).toContain(">grpo<");
    expect(plotStarter(some)).not.toContain(">sapo<");
    expect(starterSection([], [])).toBe("");
    expect(find(some, "classes", grpo, 1).map(({ seed }) => seed)).toEqual([101, 102]);
  });

  it("puts every algorithm with a clip or a gate to four passes", () => {
    expect(passes.algorithms).toEqual(
      expect.arrayContaining(["grpo", "dr-grpo", "bnpo", "dapo", "gspo", "gspo-token", "gepo", "cispo", "ppo", "vapo"]),
    );
    expect(passes.algorithms).toEqual(expect.arrayContaining(["sapo", "gmpo", "luspo"]));
    expect(passes.algorithms).not.toContain("reinforce");
  });
});
