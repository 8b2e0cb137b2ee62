import { beforeAll, describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { algorithmNames } from "../algorithm/algorithms.ts";
import { defineAlgorithm } from "../algorithm/define-algorithm.ts";
import { tokenLoss } from "../algorithm/loss/token-loss.ts";
import type { Turn } from "../conversation/trajectory.ts";
import type { Metric } from "../learning/metric-table.ts";
import { fitLearners, tableLearner } from "../test-support/table-learners.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { FunctionReward, politeShare, quickRun, tableAgent } from "../test-support/table-training.ts";
import { tool } from "../tool/tool.ts";
import { autoAdjust } from "../training/auto-adjust.ts";
import { train } from "../training/train.ts";
import { evaluationMetrics } from "./evaluation-metrics.ts";
import type { StepMetrics } from "./event.ts";
import { finiteMetrics, isMetricName, type Metrics, metrics } from "./metrics.ts";

type Known = keyof typeof metrics;
type Writer = Metric["learners"][number];

const reward = new FunctionReward(politeShare);
/** What each learner wrote, in short runs of all of them. */
const written = new Map<Writer, Set<string>>();
const note = (learner: Writer, records: readonly object[]) => {
  const names = written.get(learner) ?? new Set();
  for (const record of records) for (const name of Object.keys(record)) if (name !== "step") names.add(name);
  written.set(learner, names);
};
const learnersOf = (name: Known): readonly Writer[] => metrics[name].learners;

beforeAll(async () => {
  for (const algorithm of algorithmNames) {
    const { run } = await train({
      ...quickRun,
      steps: 2,
      updatesPerRollout: 2,
      agent: tableAgent().agent,
      reward,
      algorithm,
    } as never);
    note(algorithm, run.metrics);
  }
  const records: StepMetrics[] = [];
  const noted = async (agent: MultiTurnAgent, own: object) => {
    const options = { ...quickRun, steps: 2, agent, reward, ...own };
    const callbacks = {
      onEvaluation: (evaluation: Parameters<typeof evaluationMetrics>[0]) =>
        void records.push(finiteMetrics(0, evaluationMetrics(evaluation))),
    };
    records.push(...(await train({ callbacks, ...options } as never)).run.metrics);
  };
  // Enough for an interval on each of the two parts.
  const heldOut = Array.from({ length: 10 }, (_, i) => ({ id: `held-${i}`, userResponses: ["help card"] }));
  await noted(tableAgent().agent, { heldOut, evaluation: { every: 1 }, kl: { coefficient: 0.1 } });
  await noted(new MultiTurnAgent({ stub: { replies: ["please wait"] } }), {});
  const call = '<tool_call>{"name": "wait", "arguments": {}}</tool_call>';
  const waits = tool({ name: "wait", execute: () => "done" });
  await noted(new MultiTurnAgent({ stub: { replies: [call, "please wait"] }, tools: [waits], maxToolSteps: 1 }), {});
  // The token of <tool_call> made likely, and calls held to their schemas: only the embedded engine can.
  const opening = { maxTokens: 12, logitBias: { 3: 30 } };
  const caller = new MultiTurnAgent({ tools: [waits], maxToolSteps: 0, threads: 1, sampling: opening });
  await noted(caller, { constrain: true, steps: 1 });
  await caller.close();
  await noted(tableAgent().agent, { credit: "state", maskFailedCalls: true });
  // Shaped sampling: the correction acts.
  const shaped = { maxTokens: 6, topP: 0.5 };
  await noted(new MultiTurnAgent({ policy: createTablePolicy({ spread: 1 }), sampling: shaped }), {});
  let replies = 0;
  class Forgetful extends MultiTurnAgent {
    override beforeGeneration(turns: Turn[]): Turn[] {
      if (++replies % 5 === 0) throw new Error("no memory");
      return turns;
    }
  }
  const forgetful = new Forgetful({ policy: createTablePolicy(), sampling: { maxTokens: 6 } });
  await noted(forgetful, {});
  // What paid in the first steps pays no more: it is recalled.
  let scored = 0;
  const fading = new FunctionReward((turns) => (scored++ < 24 ? politeShare(turns) : 0));
  await noted(tableAgent().agent, { reward: fading, steps: 6 });
  await noted(tableAgent().agent, { entropyQuantile: 0.5, offPolicyMask: 0.1 });
  // A step that goes much too far is taken back.
  await noted(tableAgent().agent, { learningRate: 30, callbacks: [autoAdjust()] });
  note("rl", records);
  await noteData();
}, 120_000);

async function noteData(): Promise<void> {
  for (const learner of fitLearners) {
    const records: StepMetrics[] = [];
    const callbacks = {
      onEvaluation: (evaluation: Parameters<typeof evaluationMetrics>[0]) =>
        void records.push(finiteMetrics(0, evaluationMetrics(evaluation))),
    };
    const { metrics: steps } = await tableLearner(learner).run({ dir: false, epochs: 1, callbacks });
    note(learner, [...steps, ...records]);
  }
}

describe("the table of metrics", () => {
  it("has every name that real runs of all learners write, none of them as own/<name>", () => {
    for (const [learner, names] of written) {
      const missing = [...names].filter((name) => !isMetricName(name) || name.startsWith("own/"));
      expect(missing, learner).toEqual([]);
    }
  });

  it("has no name that no run writes", () => {
    const all = new Set([...written.values()].flatMap((names) => [...names]));
    expect(Object.keys(metrics).filter((name) => !all.has(name))).toEqual([]);
  });

  it("says which learners write each: those and no others do", () => {
    for (const name of Object.keys(metrics) as Known[]) {
      const learners = learnersOf(name);
      for (const [learner, names] of written) {
        const byReinforcement = (algorithmNames as readonly string[]).includes(learner);
        const said = learners.includes(learner) || (learners.includes("rl") && byReinforcement);
        if (names.has(name) && learner !== "rl") expect(said, `${learner} writes ${name}`).toBe(true);
        if (learners.includes(learner) && learner !== "rl")
          expect(names.has(name), `${learner} is said to write ${name}`).toBe(true);
      }
    }
  });

  it("says it in one sentence each", () => {
    for (const [name, { meaning }] of Object.entries(metrics)) expect(meaning, name).toMatch(/^[A-Z1e|][^\n]*\.$/);
  });

  it("refuses a misspelt read at compile time", () => {
    const read = (record: StepMetrics) => [
      // @ts-expect-error
      record.rewrd,
      // @ts-expect-error
      record.referenceKl,
      // @ts-expect-error
      record["reward/mean"],
      record.reward,
      record["part/tone"],
      record["own/surprise"],
      record["held-out/accuracy"],
    ];
    expect(read({ step: 1, reward: 2 })[3]).toBe(2);
    // @ts-expect-error
    const misspelt: Metrics = { rewrd: 1 };
    expect(misspelt).toEqual({ rewrd: 1 });
  });
});

describe("finiteMetrics", () => {
  it("leaves out what is not finite and marks names that are not in the table", () => {
    const given = { reward: 1, loss: Number.NaN, surprise: 3, "own/x": 4, "part/tone": 5 } as Metrics;
    expect(finiteMetrics(7, given)).toEqual({ step: 7, reward: 1, "own/surprise": 3, "own/x": 4, "part/tone": 5 });
  });

  it("lets no algorithm of a user's own stand for a number of the run", async () => {
    const plain = tokenLoss(({ logprob, advantage }) => ({ loss: -advantage * logprob, slope: -advantage }));
    const algorithm = defineAlgorithm({
      name: "mine",
      loss(micro, counts) {
        const result = plain(micro, counts);
        const sum = { sum: 40, count: 1 };
        return { ...result, metrics: { ...result.metrics, reward: sum, step: sum, surprise: sum, learningRate: sum } };
      },
    });
    const { run } = await train({ ...quickRun, steps: 1, agent: tableAgent().agent, reward, algorithm });
    const [first] = run.metrics;
    expect(first).toMatchObject({ step: 1, learningRate: quickRun.learningRate });
    expect(first).toMatchObject({ "own/reward": 40, "own/step": 40, "own/surprise": 40, "own/learningRate": 40 });
    expect(first!.reward).toBeLessThanOrEqual(1);
    expect(first!.ratio).toBeGreaterThan(0);
  });
});
