/** The runs of `npm run bench:classes` in words and tables. */
import type { JobRow } from "../parallel.ts";
import type { ByClass, ClassesJob, ClassesResult } from "./learn.ts";
import { classes } from "./shop.ts";

export type ClassesRun = Omit<JobRow<ClassesJob, ClassesResult>, "settings">;
/** A run of code that is gone: its variant is none of today's. */
export type EarlierRun = Omit<ClassesRun, "job"> & { job: Omit<ClassesJob, "variant"> & { variant: string } };

/** Those that nothing was chosen with, and those that the rate was chosen with. */
export const seeds = { unseen: [41, 42, 43, 44, 45], seen: [31, 32, 33, 34, 35] } as const;

/** A run that was made to choose what train() does, by code that is gone. */
export interface TuningRun {
  task: string;
  variant: string;
  what: string;
  seed: number;
  /** The demo has no classes. */
  after: Pick<ByClass, "mean"> & Partial<ByClass>;
  machine: string;
}

/** What benchmarks/results/classes.json holds. */
export interface Kept {
  runs: ClassesRun[];
  earlier: EarlierRun[];
  tuning: TuningRun[];
}

const columns = [...classes, "mean"] as const;
const shown = (value: number) => value.toFixed(2);
const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;

/** A row for each variant: before and after, mean over its seeds. */
export function summary(runs: readonly EarlierRun[]): string[] {
  return [...grouped(runs, ({ job }) => job.variant).values()].map((own) => row(cellsOf(own)));
}

function cellsOf(runs: readonly EarlierRun[]): string[] {
  const cells = columns.map((column) => {
    const of = (when: "before" | "after") => shown(mean(runs.map(({ result }) => result[when][column])));
    return `${of("before")} → ${of("after")}`;
  });
  const act = runs.map(({ job, result }) => `${shown(result.after.act)} (${job.seed})`).join(", ");
  return [`\`${runs[0]!.job.variant}\``, ...cells, act, mean(runs.map(({ result }) => result.recalled)).toFixed(0)];
}

export function page({ runs, earlier, tuning }: Kept): string {
  return `# Classes of scenarios, measured

Written by \`npm run bench:classes\`: GRPO on the starter model, at what \`train()\` does by itself but for what a variant names. A shop's agent can look
an order up, cancel it and refund it; a conversation is worth 1 or 0. \`lookup\`: tell an order's state. \`act\`: look it up, then make the call that
changes it. \`refuse\`: the same request, but the state forbids it. \`act\` is 6 of 30 scenarios, and a policy that never changes an order does well on
the others: so the mean rises while the class is lost.

\`default\` recalls and begins with a first look ([how](../guides/training.md#scenarios-that-are-lost)); \`no-recall\` is \`recall: false\`, which has neither.
\`recalled\` counts the conversations that joined a group. Held-out scenarios, 8 conversations each, before → after, mean over the seeds.
${measured("Seeds that nothing was chosen with", runs, seeds.unseen)}${measured("Seeds that the rate was chosen with", runs, seeds.seen)}
## At the rate before

Until these runs \`train()\` chose 1e-4 for a model of this size. Recall found the class again, but where \`act\` ended low, recalled conversations pulled towards the writing call, \`refuse\`
then failed and pulled back, and the run had not learnt to tell the two by the order's state when its 100 steps were over; with twice the steps it had. That is why the rate is 3e-4 now.
Without the first look the class was gone for good where the first two or three updates turned the policy from it before it was drawn once (seeds 12 and 24).

${head(["variant", "steps", ...columns, "`act` (seed)", "recalled"])}
${[...grouped(earlier, ({ job }) => `${job.variant} ${job.steps} ${Math.floor(job.seed / 10)}`).values()].map(earlierRow).join("\n")}

${machinesOf("Machines", earlier)}

## What was tried first

With seeds 1, 2 and 3, as far as time allowed, to choose what \`train()\` does; the code of most is gone. Where no rate is named it was 1e-4. In the shop \`act\` begins at 0.52 to 0.56, the mean
at 0.38. With 8 times the scenarios each is met 1.7 times, and nothing that is remembered of one helps. The demo loses nothing: there it shows what a variant costs.

${head(["task", "variant", "what", "`act` after, seed by seed", "mean after"])}
${[...grouped(tuning, ({ task, variant }) => `${task} ${variant}`).values()].map(tuningRow).join("\n")}

${machinesOf("Machines", tuning)}
`;
}

function earlierRow(runs: readonly EarlierRun[]): string {
  const [name, ...cells] = cellsOf(runs);
  return row([name!, String(runs[0]!.job.steps), ...cells]);
}

function measured(title: string, all: readonly ClassesRun[], of: readonly number[]): string {
  const runs = all.filter(({ job }) => of.includes(job.seed));
  if (runs.length === 0) return "";
  const { job, result } = runs[0]!;
  return `
## ${title}

${job.steps} steps, ${result.conversations} conversations a run.

${table(runs)}
`;
}

function table(runs: readonly ClassesRun[]): string {
  const training = runs.map((run) => {
    const act = run.result.training.act.map((value) => (value === null ? "–" : shown(value))).join(" ");
    return row([`\`${run.job.variant}\``, String(run.job.seed), act]);
  });
  return `${head(["variant", ...columns, "`act` (seed)", "recalled"])}
${summary(runs).join("\n")}

\`act\` in training, by tenths of the run (– where it was not drawn):

${head(["variant", "seed", "`act`"])}
${training.join("\n")}

${machinesOf("Machine", runs)}`;
}

function tuningRow(runs: readonly TuningRun[]): string {
  const { task, variant, what } = runs[0]!;
  const cells = (column: "act" | "mean") =>
    runs.map(({ after: { [column]: value } }) => (value === undefined ? "–" : shown(value))).join(", ");
  return row([task, `\`${variant}\``, what, cells("act"), cells("mean")]);
}

function machinesOf(word: string, runs: readonly { machine: string }[]): string {
  return `${word}: ${[...new Set(runs.map(({ machine }) => machine))].join("; ")}.`;
}

function grouped<T>(list: readonly T[], key: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const one of list) groups.set(key(one), [...(groups.get(key(one)) ?? []), one]);
  return groups;
}

const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
const head = (cells: readonly string[]) => `${row(cells)}\n${row(cells.map(() => "---"))}`;
