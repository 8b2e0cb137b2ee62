/** What the runs say of the diagnostics, as numbers and as the page docs/results/diagnostics.md. */
import type { JobRow } from "../parallel.ts";
import type { Case } from "./case.ts";
import { cases } from "./cases.ts";
import type { Job, RunResult } from "./run.ts";

export interface CaseReport {
  case: string;
  set: Case["set"];
  ill: boolean;
  expected: readonly string[];
  /** Verdicts that are more than a note, of the run that is only watched. */
  said: { step: number; kind: string; message: string }[];
  notes: string[];
  /** The step at which the first expected verdict (of a healthy run: any) was said. */
  saidAt: number | null;
  before: number;
  after: number;
  /** The same run with autoAdjust; null where it was not run. */
  adjusted: { after: number; actions: number } | null;
  sample: string;
}

export function reportOf(rows: readonly JobRow<Job, RunResult>[]): CaseReport[] {
  const resultOf = (name: string, autoAdjust: boolean) =>
    rows.find(({ job }) => job.case === name && job.autoAdjust === autoAdjust)?.result;
  return Object.entries(cases).flatMap(([name, { set, expected }]) => {
    const watched = resultOf(name, false);
    if (!watched) return [];
    const adjusted = resultOf(name, true);
    const said = watched.verdicts.filter(({ severity }) => severity !== "note");
    const ill = expected.length > 0;
    const first = said.find(({ kind }) => !ill || expected.includes(kind));
    return [
      {
        case: name,
        set,
        ill,
        expected,
        said: said.map(({ step, kind, message }) => ({ step, kind, message })),
        notes: watched.verdicts.filter(({ severity }) => severity === "note").map(({ message }) => message),
        saidAt: first?.step ?? null,
        before: watched.before,
        after: watched.after,
        adjusted: adjusted ? { after: adjusted.after, actions: adjusted.adjustments.length } : null,
        sample: watched.samples[0] ?? "",
      },
    ];
  });
}

export interface Summary {
  healthy: number;
  falseAlarms: string[];
  ill: number;
  misses: string[];
  /** Steps until an expected verdict was said, median over those that were. */
  stepsUntilSaid: number | null;
  /** Means over the ill runs that were also run with autoAdjust, and over the healthy ones: what is wanted, before and after. */
  saved: Record<"ill" | "healthy", { runs: number; before: number; plain: number; adjusted: number }>;
}

export function summarise(reports: readonly CaseReport[]): Summary {
  const [ill, healthy] = [reports.filter((one) => one.ill), reports.filter((one) => !one.ill)];
  const steps = ill.flatMap(({ saidAt }) => saidAt ?? []).sort((a, b) => a - b);
  const saved = (of: readonly CaseReport[]) => {
    const both = of.filter(({ adjusted }) => adjusted !== null);
    const mean = (value: (one: CaseReport) => number) =>
      both.reduce((sum, one) => sum + value(one), 0) / Math.max(1, both.length);
    return {
      runs: both.length,
      before: mean(({ before }) => before),
      plain: mean(({ after }) => after),
      adjusted: mean(({ adjusted }) => adjusted!.after),
    };
  };
  return {
    healthy: healthy.length,
    falseAlarms: healthy.filter(({ saidAt }) => saidAt !== null).map((one) => one.case),
    ill: ill.length,
    misses: ill.filter(({ saidAt }) => saidAt === null).map((one) => one.case),
    stepsUntilSaid: steps[Math.floor(steps.length / 2)] ?? null,
    saved: { ill: saved(ill), healthy: saved(healthy) },
  };
}

const number = (value: number) => value.toFixed(2);

function table(reports: readonly CaseReport[]): string[] {
  const kinds = ({ said }: CaseReport) => said.map(({ step, kind }) => `${kind} (${step})`).join(", ") || "–";
  return [
    "| run | what is wanted, before → after | with `autoAdjust` | said (at step) |",
    "|---|---|---|---|",
    ...reports.map((one) => {
      const adjusted = one.adjusted ? `${number(one.adjusted.after)} (${one.adjusted.actions} actions)` : "";
      return `| ${one.case} | ${number(one.before)} → ${number(one.after)} | ${adjusted} | ${kinds(one)} |`;
    }),
  ];
}

export function pageOf(reports: readonly CaseReport[], machine: string): string {
  const proof = reports.filter(({ set }) => set === "proof");
  const { healthy, falseAlarms, ill, misses, stepsUntilSaid, saved } = summarise(proof);
  const named = (names: readonly string[]) => (names.length === 0 ? "" : ` (${names.join(", ")})`);
  const line = (of: "ill" | "healthy") =>
    `${of === "ill" ? "Ill" : "Healthy"} runs went from ${number(saved[of].before)} to ${number(saved[of].plain)} by themselves and to ${number(saved[of].adjusted)} with \`autoAdjust\`, mean of ${saved[of].runs}.`;
  const tuning = summarise(reports.filter(({ set }) => set === "tuning"));
  return [
    "# How well diagnostics tell",
    "",
    `Made by \`npm run bench:diagnostics\` on ${machine}. ${healthy} healthy and ${ill} ill runs of the starter model, of kinds and seeds that no threshold was tuned with. [What is looked at](../guides/diagnostics.md) and \`benchmarks/diagnostics/proof-cases.ts\` say what each is.`,
    "",
    `- False alarms: **${falseAlarms.length} of ${healthy}**${named(falseAlarms)}. A verdict that is more than a note, in a healthy run.`,
    `- Misses: **${misses.length} of ${ill}**${named(misses)}. No verdict that names the illness.`,
    `- Steps until it was said: ${stepsUntilSaid ?? "–"}, the median.`,
    ...(saved.ill.runs > 0 ? [`- ${line("ill")}`] : []),
    ...(saved.healthy.runs > 0 ? [`- ${line("healthy")}`] : []),
    "",
    "What is wanted is measured on held-out users: in a healthy run the reward itself, in an ill one mostly what training does not see.",
    "Library and command line have one `autoAdjust()`, which chooses the same KL estimator in both.",
    "",
    "## Ill runs",
    "",
    ...table(proof.filter((one) => one.ill)),
    "",
    "## Healthy runs",
    "",
    ...table(proof.filter((one) => !one.ill)),
    ...(tuning.healthy + tuning.ill > 0
      ? [
          "",
          "## The runs that thresholds were tuned with",
          "",
          `${tuning.falseAlarms.length} false alarms in ${tuning.healthy}, ${tuning.misses.length} misses in ${tuning.ill}.`,
          "",
          ...table(reports.filter(({ set }) => set === "tuning")),
        ]
      : []),
    "",
  ].join("\n");
}
