/** The runs of `npm run bench:precision` in words and tables. */
import { pairedTest } from "stateset-agents/telemetry";
import { estimateText } from "../estimate.ts";
import { type TaskName, tasks } from "../proof/starter/tasks.ts";
import { type Arm, arms, type PrecisionJob, type PrecisionResult } from "./learn.ts";

/** Of the page. Nothing was tuned with them. */
export const seeds = [301, 302, 303, 304];

export interface PrecisionRun {
  job: PrecisionJob;
  result: PrecisionResult;
}

export interface PrecisionRecord {
  machine: string;
  learningRate: number;
  runs: PrecisionRun[];
}

/** What each arm is, for the page. */
const what: Record<Arm, string> = {
  f32: "as training is by default",
  moments: '`moments: "bf16"`, the optimiser\'s moments in two bytes each',
  gradients: '`gradients: "bf16"`, the operands of gradient products rounded',
};

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const signed = (value: number) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
const names = Object.keys(tasks) as TaskName[];

const of = (runs: readonly PrecisionRun[], task: TaskName, arm: Arm) =>
  runs.filter(({ job }) => job.task === task && job.arm === arm);

/** Over the runs, place by place. */
function means(lists: readonly (readonly number[])[]): number[] {
  return (lists[0] ?? []).map((_, i) => mean(lists.map((list) => list[i]!)));
}

/** Held-out means of f32 and of an arm, by the tasks and seeds that both have. */
function pairs(runs: readonly PrecisionRun[], arm: Arm, some: readonly TaskName[] = names): [number, number][] {
  return some.flatMap((task) =>
    of(runs, task, arm).flatMap((own): [number, number][] => {
      const other = of(runs, task, "f32").find(({ job }) => job.seed === own.job.seed);
      return other ? [[mean(other.result.scenarios), mean(own.result.scenarios)]] : [];
    }),
  );
}

function difference(of: readonly (readonly [number, number])[]): string {
  return of.length === 0 ? "" : signed(mean(of.map(([f32, own]) => own - f32)));
}

/** Each arm against f32 over all runs, in pairs of one task and seed: rounding makes other runs, and what differs between runs is chance. */
export function overall(runs: readonly PrecisionRun[]): string[] {
  return (Object.keys(arms) as Arm[]).flatMap((arm) => {
    const found = pairs(runs, arm);
    if (arm === "f32" || found.length === 0) return [];
    const test = pairedTest(
      found.map(([f32]) => f32),
      found.map(([, own]) => own),
    );
    const { wins, pValue } = test;
    const counted = `better in ${wins.b}, worse in ${wins.a} and the same in ${wins.ties} of ${found.length} pairs of runs`;
    return [`- **${arm}**: ${estimateText(test.difference, signed)}, p ${pValue.toPrecision(2)}; ${counted}.`];
  });
}

/** A line for each task and arm: the reward of the first and last steps, held-out reward, and the difference to f32. */
export function summary(runs: readonly PrecisionRun[]): string[] {
  return names.flatMap((task) =>
    (Object.keys(arms) as Arm[]).flatMap((arm) => {
      const own = of(runs, task, arm);
      if (own.length === 0) return [];
      const curve = means(own.map(({ result }) => result.curve));
      const heldOut = own.map(({ result }) => mean(result.scenarios));
      const cells = [
        ...[task, arm, own.length, mean(curve.slice(0, 3)).toFixed(3), mean(curve.slice(-3)).toFixed(3)],
        ...[mean(heldOut).toFixed(3), heldOut.map((value) => value.toFixed(3)).join(" ")],
        arm === "f32" ? "" : difference(pairs(runs, arm, [task])),
      ];
      return [`| ${cells.join(" | ")} |`];
    }),
  );
}

export function page({ machine, learningRate, runs }: PrecisionRecord): string {
  const used = [...new Set(runs.map(({ job }) => job.seed))].sort((a, b) => a - b);
  const curves = names.flatMap((task) =>
    (Object.keys(arms) as Arm[]).flatMap((arm) => {
      const own = of(runs, task, arm);
      const curve = means(own.map(({ result }) => result.curve)).map((value) => value.toFixed(2));
      return own.length === 0 ? [] : [`| ${task} | ${arm} | ${curve.join(" ")} |`];
    }),
  );
  return `# Training in fewer bits

Written by \`npm run bench:precision\`: GRPO at its defaults, but for a rate of ${learningRate}, on the starter model and the three tasks of
[the proof](proof.md#on-the-starter-model-at-the-options-a-user-gets), with seeds ${used.join(", ")}, which nothing was tuned with. Each arm keeps a part of training in fewer bits:

${(Object.keys(arms) as Arm[]).map((arm) => `- **${arm}**: ${what[arm]}.`).join("\n")}

${names.map((task) => `- **${task}**: ${tasks[task].title}.`).join("\n")}

Rounding makes other runs of them, as another seed would: single runs differ, and means over a few do too. The rewards are means of the first
and last three steps over the seeds; *held out* is the mean score of held-out scenarios after training, then that of each seed. Over all runs, each arm
with a task and seed beside f32 with the same ones (held out, 95% interval, sign-flip test):

${overall(runs).join("\n")}

| task | arm | seeds | first steps | last steps | held out | by seed | against f32 |
| --- | --- | --- | --- | --- | --- | --- | --- |
${summary(runs).join("\n")}

## Step by step

Mean reward over the seeds.

| task | arm | steps from 1 |
| --- | --- | --- |
${curves.join("\n")}

${machine}
`;
}
