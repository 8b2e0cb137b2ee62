/** The runs of `npm run bench:classes` in words and tables. */
import { pairedTest } from "../../packages/stateset-agents/src/evaluation/paired-test.ts";
import type { JobRow } from "../parallel.ts";
import type { ByClass, ClassesJob, ClassesResult, VariantName } from "./learn.ts";
import { classes } from "./shop.ts";

export type ClassesRun = Omit<JobRow<ClassesJob, ClassesResult>, "settings">;
/** A run of code that is gone: its variant is none of today's. */
export type EarlierRun = Omit<ClassesRun, "job"> & { job: Omit<ClassesJob, "variant"> & { variant: string } };

/** Those that nothing was chosen with, those whose runs led to the first look, and those of `further`, which nothing was chosen with either. */
export const seeds = {
  unseen: [21, 22, 23, 24, 25],
  seen: [11, 12, 13, 14, 15],
  further: [31, 32, 33, 34, 35],
} as const;

/** What else is run, with the seeds of `further`: twice the steps, and three times the rate. */
export const further: readonly { variant: VariantName; steps: number }[] = [
  { variant: "default", steps: 200 },
  { variant: "no-recall", steps: 200 },
  { variant: "lr1e-4", steps: 100 },
];

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
  return [...grouped(runs, ({ job }) => job.variant)].map(([variant, own]) => {
    const cells = columns.map((column) => {
      const of = (when: "before" | "after") => shown(mean(own.map(({ result }) => result[when][column])));
      return `${of("before")} → ${of("after")}`;
    });
    const act = own.map(({ result }) => shown(result.after.act)).join(", ");
    return row([`\`${variant}\``, ...cells, act, mean(own.map(({ result }) => result.recalled)).toFixed(0)]);
  });
}

export function page({ runs, earlier, tuning }: Kept): string {
  return `# Classes of scenarios, measured

Written by \`npm run bench:classes\`: GRPO on the starter model, at what \`train()\` does by itself but for what a variant names. A shop's agent can look
an order up, cancel it and refund it; a conversation is worth 1 or 0. \`lookup\`: tell an order's state. \`act\`: look it up, then make the call that
changes it. \`refuse\`: the same request, but the state forbids it. \`act\` is 6 of 30 scenarios, and a policy that never changes an order does well on
the others: so the mean rises while the class is lost.

\`default\` recalls and begins with a first look ([how](../guides/training.md#scenarios-that-are-lost)); \`no-first-look\` is \`train()\` as it was before that; \`no-recall\` is \`recall: false\`.
\`recalled\` counts the conversations that joined a group. Held-out scenarios, 8 conversations each, before → after, mean over the seeds. Without the first look the class is gone for
good where the first two or three updates turn the policy from it before it was drawn once (seeds 12 and 24).
${compared(runs, earlier)} Where \`act\` ends low, recalled conversations pull towards the writing call, \`refuse\` then fails and pulls back, and
the run has not learnt to tell the two by the order's state after 100 steps. Seed 12 had bad luck: no refund of its first look succeeded, so that those three scenarios stayed lost.
${furtherRuns(runs)}${measured("Seeds that nothing was chosen with", [...runs, ...earlier], seeds.unseen)}${measured("Seeds that were looked at", [...runs, ...earlier], seeds.seen)}
## What was tried first

With seeds 1, 2 and 3, as far as time allowed, to choose what \`train()\` does; the code of most is gone. On these three seeds the first look did better than on those above. In the shop \`act\` begins at 0.52 to 0.56, the mean
at 0.38. With 8 times the scenarios each is met 1.7 times, and nothing that is remembered of one helps. The demo loses nothing: there it shows what a variant costs.

${head(["task", "variant", "what", "`act` after, seed by seed", "mean after"])}
${[...grouped(tuning, ({ task, variant }) => `${task} ${variant}`).values()].map(tuningRow).join("\n")}

${machinesOf("Machines", tuning)}
`;
}

/** Whether the class stays lost, and what is quicker. */
function furtherRuns(runs: readonly ClassesRun[]): string {
  const named = further.flatMap(({ variant, steps }) => {
    const own = runs.filter(
      ({ job }) =>
        job.variant === variant && job.steps === steps && (seeds.further as readonly number[]).includes(job.seed),
    );
    return own.map((run): EarlierRun => ({ ...run, job: { ...run.job, variant: `${variant}, ${steps} steps` } }));
  });
  if (named.length === 0) return "";
  return `
## Does it stay lost?

No: with twice the steps the defaults have learnt to tell the two apart, with seeds that nothing was chosen with. \`lr3e-4\` is a rate three times the default: nearly as good in 100 steps.

${table(named, seeds.further)}
`;
}

/** With and without a first look, over the seeds that have both. */
function compared(runs: readonly ClassesRun[], earlier: readonly EarlierRun[]): string {
  const pairs = earlier.flatMap((before) => {
    const now = runs.find(({ job }) => job.variant === "default" && job.seed === before.job.seed);
    return now ? [{ seed: now.job.seed, now: now.result.after, before: before.result.after }] : [];
  });
  if (pairs.length === 0) return "";
  const lost = (when: "now" | "before") => pairs.filter((pair) => pair[when].act === 0).length;
  const from = (some: typeof pairs, column: "act" | "mean") =>
    `${shown(mean(some.map(({ before }) => before[column])))} → ${shown(mean(some.map(({ now }) => now[column])))}`;
  const [a, b] = (["before", "now"] as const).map((when) => pairs.map((pair) => pair[when].act));
  const { pValue, wins } = pairedTest(a!, b!);
  const parts = Object.entries(seeds).flatMap(([name, of]) => {
    const some = pairs.filter(({ seed }) => (of as readonly number[]).includes(seed));
    return some.length === 0 ? [] : [` ${name}: \`act\` ${from(some, "act")}, mean ${from(some, "mean")}`];
  });
  return `It ends at 0 with ${lost("before")} of ${pairs.length} seeds without a first look and with ${lost("now")} with it. Without → with, over all of them: \`act\` ${from(pairs, "act")}
(higher with ${wins.b}, lower with ${wins.a}; p = ${shown(pValue)} by a paired sign-flip test over the seeds), mean ${from(pairs, "mean")};${parts.join(";")}.`;
}

function measured(title: string, all: readonly EarlierRun[], of: readonly number[]): string {
  const runs = all.filter(({ job }) => of.includes(job.seed));
  if (runs.length === 0) return "";
  const { job, result } = runs[0]!;
  return `
## ${title}

Seeds ${of.join(", ")}, ${job.steps} steps, ${result.conversations} conversations a run${title.includes("looked") ? ": the trouble with seed 12 is why there is a first look" : ""}.

${table(runs, of)}
`;
}

function table(runs: readonly EarlierRun[], of: readonly number[]): string {
  const training = runs.map((run) => {
    const act = run.result.training.act.map((value) => (value === null ? "–" : shown(value))).join(" ");
    return row([`\`${run.job.variant}\``, String(run.job.seed), act]);
  });
  return `${head(["variant", ...columns, `\`act\` of seeds ${of.join(", ")}`, "recalled"])}
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
