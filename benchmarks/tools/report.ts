/** The runs of `npm run bench:tools` in words and tables. */
import { pairedTest } from "stateset-agents/telemetry";
import { taskClasses } from "stateset-agents/tools";
import { change, estimateText } from "../estimate.ts";
import type { JobRow } from "../parallel.ts";
import type { BySource } from "./dialogues.ts";
import { labelOf, type Measured, type ToolsJob, type ToolsResult } from "./learn.ts";
import {
  columns,
  type ElsewhereRun,
  estimate,
  grouped,
  isElsewhere,
  isLearnt,
  type Measure,
  mean,
  perTask,
  type ToolsRun,
} from "./measures.ts";
import { jobsOf, longSeeds, pageSeeds, starter } from "./plan.ts";
import {
  type DomainName,
  full,
  groupSize,
  groupsPerStep,
  harder,
  type Level,
  samples,
  sizesOf,
  type Way,
  ways,
} from "./task.ts";

/** Each class is to end there. */
const goal = 0.8;
const shown = (value: number) => value.toFixed(2);
const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [row(head), row(head.map(() => "---")), ...rows.map(row)].join("\n");

/** A line a run. */
export function summary(rows: readonly JobRow<ToolsJob, ToolsResult>[]): string[] {
  return rows.filter(isLearnt).map((run) => {
    const cells = columns.map((column) => `${column} ${shown(mean(perTask([run], column)))}`);
    const { conversations, trainingSeconds } = run.result;
    return `${labelOf(run.job)} · ${cells.join(", ")} · ${conversations} conversations, ${trainingSeconds.toFixed(0)} s`;
  });
}

export function page(rows: readonly JobRow<ToolsJob, ToolsResult>[]): string {
  const all = rows.filter(isLearnt);
  const runs = all.filter(({ job }) => job.model === starter);
  const of = (domain: DomainName, level: Level) =>
    runs.filter(({ job }) => job.domain === domain && job.level === level);
  const levels = ([2, 3] as const).flatMap((level) =>
    (["retail", "booking"] as const).flatMap((domain) => {
      const own = of(domain, level);
      return own.length === 0 ? [] : [`### ${domain}, level ${level}\n\n${results(own)}`];
    }),
  );
  const sections = [
    section("The shop, from the starter model alone", retailWords(of("retail", 1)), of("retail", 1)),
    section("Booking", bookingWords(of("booking", 1)), of("booking", 1)),
    levels.length > 0 && `## Harder levels, as they are\n\n${levels.join("\n\n")}`,
    failuresSection(runs),
    dialoguesSection(rows.filter(isElsewhere)),
    otherModels(all.filter(({ job }) => job.model !== starter)),
    missing(rows),
    machines(rows),
  ];
  return `# Agents that act, measured

Written by \`npm run bench:tools\`. Agents learn [tasks with a state](../guides/tasks.md#two-domains): a conversation succeeds when the final state, the writes and
the words are those that were asked for, and is worth 1 or 0. Classes: \`lookup\` (tell what is), \`act\` (look, then make the call that changes something), \`refuse\` (look; it is
not allowed) and \`ask\` (something is missing: ask back first). All numbers are of ${full.heldOutTasks} held-out tasks with other ids, names and phrasings than in training, ${samples} conversations each at
temperature 1, mean over the seeds (${pageSeeds.join(", ")}; of \`grpo-long\` ${longSeeds.join(", ")}, since its length was chosen with 21; nothing else was chosen with any of them), with 95% intervals over tasks. *pass^${samples}*: all ${samples} conversations of a task succeeded.
GRPO learns for ${full.steps} steps of ${groupsPerStep} groups of ${groupSize} from ${full.trainingTasks} tasks, at what \`train()\` does by itself; on levels 2 and 3 for ${harder.steps}, with one seed.

![Success by class](../images/tools.svg)

${sections.filter(Boolean).join("\n\n")}
`;
}

function section(title: string, words: string, runs: readonly ToolsRun[]): string {
  return runs.length === 0 ? "" : `## ${title}\n\n${[words, results(runs)].filter(Boolean).join("\n\n")}`;
}

/** A row a way: success and pass^4 by class; then what each seed gave. */
function results(runs: readonly ToolsRun[]): string {
  const byWay = grouped(runs, ({ job }) => job.way);
  const means = (measure: Measure) => (own: ToolsRun[]) => [
    `\`${own[0]!.job.way}\``,
    ...columns.map((column) => estimateText(estimate(own, column, measure), shown)),
  ];
  const success = byWay.map((own) => [
    ...means("success")(own),
    mean(own.map(({ result }) => result.conversations)).toFixed(0),
    (ways[own[0]!.job.way] as Way).what,
  ]);
  const seeds = byWay.flatMap((own) =>
    own[0]!.job.way === "untrained"
      ? []
      : own.map((run) => [
          ...[`\`${run.job.way}\``, String(run.job.seed)],
          ...columns.map((column) => shown(mean(perTask([run], column)))),
          `${(run.cpuSeconds / 60).toFixed(1)} min`,
        ]),
  );
  const parts = [
    table(["success", ...columns, "conversations", "what"], success),
    table([`pass^${samples}`, ...columns], byWay.map(means("every"))),
    ...(seeds.length > 0
      ? [
          "Success seed by seed, with the processor time of the whole run:",
          table(["way", "seed", ...columns, "processor"], seeds),
        ]
      : []),
  ];
  return parts.join("\n\n");
}

function retailWords(runs: readonly ToolsRun[]): string {
  const least = (run: ToolsRun) => Math.min(...taskClasses.map((topic) => mean(perTask([run], topic))));
  const said = (["grpo", "grpo-long"] as const).flatMap((way) => {
    const own = runs.filter(({ job }) => job.way === way);
    if (own.length === 0) return [];
    const reached = own.filter((run) => least(run) >= goal).length;
    return `\`${way}\` has every class at ${goal} or above with ${reached} of ${own.length} seeds; the lowest class of each ended at ${own.map((run) => least(run).toFixed(3)).join(", ")}.`;
  });
  return said.length === 0
    ? ""
    : `GRPO alone, without demonstrations, on tools that the model has never seen: ${said.join(" ")}`;
}

function bookingWords(runs: readonly ToolsRun[]): string {
  const of = (way: string) => runs.filter(({ job }) => job.way === way);
  const [before, after] = [of("untrained"), of("grpo")];
  if (before.length === 0 || after.length === 0) return "";
  const said = {
    better: "rises beyond its interval",
    worse: "falls below its interval",
    "intervals overlap": "stays within the intervals",
    "too few to tell": "has too few tasks to tell",
  };
  const against = (what: string, a: readonly ToolsRun[], b: readonly ToolsRun[]) => {
    if (a.length === 0 || b.length === 0) return [];
    const { difference, pValue } = pairedTest(perTask(a, "all"), perTask(b, "all"));
    const by = `${difference.mean < 0 ? "" : "+"}${estimateText(difference, shown)}`;
    return [`${what} ${by}, ${pValue < 0.001 ? "p < 0.001" : `p = ${pValue.toFixed(3)}`}`];
  };
  const compared = [
    ...against("after GRPO", before, after),
    ...against("with the reward's sign flipped", before, of("flipped")),
    ...against("GRPO over SFT on the best of as many conversations", of("best-of-n"), after),
  ];
  return `Success ${said[change(estimate(before, "all"), estimate(after, "all"))]}. Differences in pairs, task by task: ${compared.join("; ")}.`;
}

function failuresSection(runs: readonly ToolsRun[]): string {
  const own = grouped(
    runs.filter(({ job }) => job.way === "untrained" || job.way === "grpo"),
    ({ job }) => `${job.domain} ${job.level} ${job.way}`,
  );
  if (own.length === 0) return "";
  const measured = own.flatMap((same) => {
    const { domain, level, way } = same[0]!.job;
    const constrained = same.flatMap(({ result }) => result.constrained ?? []);
    const name = [`${domain} ${level}`, `\`${way}\``];
    return [
      { name, of: same.map(({ result }): Measured => result) },
      ...(constrained.length > 0 ? [{ name: [name[0]!, `${name[1]}, \`constrain\``], of: constrained }] : []),
    ];
  });
  const kinds = [...new Set(measured.flatMap(({ of }) => of.flatMap(({ failures }) => Object.keys(failures))))].sort();
  const rows = measured.map(({ name, of }) => {
    const calls = of.reduce((sum, one) => sum + one.calls, 0);
    const share = (kind: string) =>
      `${((100 * of.reduce((sum, { failures }) => sum + (failures[kind] ?? 0), 0)) / Math.max(1, calls)).toFixed(1)}%`;
    const solved = mean(of.flatMap((one) => one.solved)) / samples;
    return [...name, shown(solved), String(Math.round(calls / of.length)), ...kinds.map(share)];
  });
  return `## Calls that came to nothing

By kind, of all calls in the held-out conversations. With \`constrain\`: the same model and seeds, calls valid by construction (in the measurement, not in training), but for those that the token limit cuts. [What it costs](../guides/tools.md#calls-that-are-valid-by-construction) a model that writes arguments in another order than the schema is seen in booking.

${table(["tasks", "way", "success", "calls", ...kinds.map((kind) => `\`${kind}\``)], rows)}`;
}

function dialoguesSection(measured: readonly ElsewhereRun[]): string {
  if (measured.length === 0) return "";
  const byWay = grouped(measured, ({ job }) => job.way);
  const sources = [...new Set(measured.flatMap(({ result }) => Object.keys(result.dialogues)))];
  const total = (of: BySource, source: string, what: "calls" | "tool" | "all") =>
    source === "all" ? Object.values(of).reduce((sum, one) => sum + one[what], 0) : (of[source]?.[what] ?? 0);
  const share = (same: readonly ElsewhereRun[], source: string, what: "tool" | "all") =>
    `${(100 * mean(same.map(({ result }) => total(result.dialogues, source, what) / Math.max(1, total(result.dialogues, source, "calls"))))).toFixed(0)}%`;
  const rows = [...sources, "all"].map((source) => [
    source,
    String(total(measured[0]!.result.dialogues, source, "calls")),
    ...byWay.flatMap((same) => [share(same, source, "tool"), share(same, source, "all")]),
  ]);
  const heads = byWay.flatMap((same) => {
    const { way } = same[0]!.job;
    return [`\`${way}\`: right tool`, "and all arguments"];
  });
  return `## What it costs elsewhere

Calls in conversations of the model's own corpus that it was not trained on (\`dialogues/dev.jsonl\`), greedy, before and after it learnt the shop (${byWay
    .filter((same) => same[0]!.job.way !== "untrained")
    .map((same) => `seeds ${same.map(({ job }) => job.seed).join(", ")}`)
    .join("; ")}). Given is the conversation up to the call, and the tools that it calls anywhere beside three others.

${table(["source", "calls", ...heads], rows)}`;
}

function otherModels(runs: readonly ToolsRun[]): string {
  if (runs.length === 0) return "";
  const parts = grouped(runs, ({ job }) => `${job.model} ${job.domain}`).map((own) => {
    const { model, domain, level } = own[0]!.job;
    const sizes = sizesOf(own[0]!.job);
    return `### ${model}, ${domain} ${level}\n\n${sizes.heldOutTasks} held-out tasks, ${sizes.steps} steps, an adapter (LoRA).\n\n${results(own)}`;
  });
  return `## Other models\n\n${parts.join("\n\n")}`;
}

/** What the page does not hold. */
function missing(runs: readonly { job: ToolsJob }[]): string {
  const known = new Set(runs.map(({ job }) => JSON.stringify(job)));
  const left = jobsOf({ model: starter, seeds: pageSeeds, quick: false }).filter(
    (job) => !known.has(JSON.stringify(job)),
  );
  if (left.length === 0) return "";
  const lines = grouped(left, ({ domain, level, way, dialogues }) => `${domain} ${level} ${way} ${dialogues}`).map(
    (same) => {
      const { domain, level, way, dialogues } = same[0]!;
      return `- ${domain} ${level}, \`${way}\`${dialogues ? ", calls of the dialogues" : ""}${way === "untrained" ? "" : `: seeds ${same.map(({ seed }) => seed).join(", ")}`}`;
    },
  );
  return `## Not run yet\n\nThe same command goes on with these.\n\n${lines.join("\n")}`;
}

function machines(runs: readonly { machine: string }[]): string {
  const names = [...new Set(runs.map(({ machine }) => machine))];
  return names.length === 0 ? "" : `Machine${names.length > 1 ? "s" : ""}: ${names.join("; ")}.`;
}
