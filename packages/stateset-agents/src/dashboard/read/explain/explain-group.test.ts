import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../../test/temporary-folder.ts";
import type { Turn } from "../../../conversation/trajectory.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../../../test-support/table-training.ts";
import { train } from "../../../training/train.ts";
import type { TrainOptions } from "../../../training/train-options.ts";
import type { GroupData } from "../../api/index.ts";
import { createReader } from "../create-reader.ts";

const root = temporaryFolder();
let made = 0;

/** All groups of two steps of a run, as the page gets them. */
async function groupsOf(options: Partial<TrainOptions>): Promise<GroupData[]> {
  const name = `run-${++made}`;
  await train({
    learningRate: 0.3,
    schedule: "constant",
    warmup: 0,
    groupsPerStep: 3,
    groupSize: 4,
    steps: 2,
    dir: join(root, "runs", name),
    name,
    agent: tableAgent().agent,
    environment: tableEnvironment(),
    reward: new FunctionReward((turns: readonly Turn[]) => politeShare(turns) + turns.length / 100),
    trajectories: { every: 1, perStep: 3, tokens: true },
    checkpoint: { every: 0 },
    ...options,
  } as TrainOptions);
  const reader = createReader({ folders: [join(root, "runs")], cacheDir: join(root, "cache") });
  const { rows } = await reader.trajectories(name, {});
  const keys = [...new Set(rows.map(({ group }) => group!))];
  return Promise.all(keys.map((key) => reader.group(key)));
}

const lastNumber = (text: string) => Number(/(−?[\d.]+(?:e[+-−]?\d+)?)$/.exec(text)![1]!.replace("−", "-"));

describe("why this advantage", { timeout: 120_000 }, () => {
  it.each<[string, Record<string, unknown>]>([
    ["GRPO", { algorithm: "grpo" }],
    ["GRPO with the KL penalty in the reward", { algorithm: "grpo", beta: 0.1, klIn: "reward" }],
    ["GRPO without the spread", { algorithm: "grpo", scale: "none" }],
    ["Dr. GRPO", { algorithm: "dr-grpo" }],
    ["BNPO", { algorithm: "bnpo" }],
    [
      "DAPO, long replies punished",
      { algorithm: "dapo", overlongPenalty: 1, overlongBuffer: 1, dynamicSampling: false },
    ],
    ["GSPO", { algorithm: "gspo" }],
    ["CISPO, rewards clipped", { algorithm: "cispo", rewardShaping: { clipHigh: 0.3 } }],
    ["TRPO", { algorithm: "trpo" }],
    ["RLOO", { algorithm: "rloo" }],
    ["RLOO with the KL penalty in the reward", { algorithm: "rloo", beta: 0.1 }],
    ["REINFORCE against the group", { algorithm: "reinforce", baseline: "group" }],
    ["REINFORCE without a baseline", { algorithm: "reinforce", baseline: "none" }],
  ])("of %s ends in the number that was learnt from", async (_, options) => {
    const groups = await groupsOf(options as Partial<TrainOptions>);
    expect(groups.length).toBeGreaterThanOrEqual(6);
    expect(groups.some(({ members }) => members.some(({ advantage }) => advantage!.mean !== 0))).toBe(true);
    for (const { why, members } of groups) {
      expect(why!.note ?? "").not.toMatch(/differ/);
      members.forEach(({ advantage }, i) => {
        const shown = advantage!.mean === 0 ? 0 : Number(advantage!.mean.toPrecision(4));
        expect(lastNumber(why!.members[i]!.replace(/^0: .*/, "0"))).toBeCloseTo(shown, 3);
      });
    }
  });

  it.each<[string, Record<string, unknown>]>([
    ["credit by turn", { algorithm: "grpo", credit: "turn" }],
    ["credit by state", { algorithm: "grpo", credit: "state" }],
  ])("of %s is reply by reply, and what was recorded", async (_, options) => {
    for (const { why, members } of await groupsOf(options as Partial<TrainOptions>)) {
      expect(why!.note ?? "").not.toMatch(/differ/);
      why!.members.forEach((text, i) => {
        expect(text.match(/reply \d+:/g)).toHaveLength(members[i]!.replies);
      });
    }
  });

  it.each<[string, Record<string, unknown>, RegExp]>([
    ["GRPO over the batch", { algorithm: "grpo", scale: "batch" }, /whole batch/],
    ["REINFORCE against the batch", { algorithm: "reinforce" }, /whole batch/],
    ["several rewards", { algorithm: "grpo", rewardWeights: { function: 1 } }, /whole batch/],
    ["REINFORCE++", { algorithm: "reinforce++" }, /all tokens of the batch/],
    ["PPO", { algorithm: "ppo" }, /All tokens of the batch/],
    ["VAPO", { algorithm: "vapo" }, /All tokens of the batch/],
    ["A2C, n steps", { algorithm: "a2c", nSteps: 3 }, /All tokens of the batch/],
    ["normalised rewards", { algorithm: "grpo", rewardShaping: { normalise: "batch" } }, /^$/],
  ])("of %s says what it cannot know", async (_, options, note) => {
    const groups = await groupsOf(options as Partial<TrainOptions>);
    for (const { why, members } of groups) {
      expect(why!.formula).not.toBe("");
      expect(why!.members).toHaveLength(members.length);
      if (note.source !== "^$") expect(why!.note).toMatch(note);
      else expect(why!.lines.join(" ")).toMatch(/normalised .* whole batch/);
    }
  });

  it("of one batch that was whitened goes by the numbers of all its groups: what is recorded is what is shown", async () => {
    const groups = await groupsOf({ algorithm: "grpo", scale: "batch" } as Partial<TrainOptions>);
    for (const { why, members } of groups) {
      members.forEach(({ advantage }, i) => {
        if (advantage!.mean === 0) return;
        expect(lastNumber(why!.members[i]!)).toBeCloseTo(Number(advantage!.mean.toPrecision(4)), 3);
      });
    }
  });
});
