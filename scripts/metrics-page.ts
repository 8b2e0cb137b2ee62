// Writes docs/reference/metrics.md from the table of metrics and what the type checker finds of their use. Run with tsx; a test checks that the page
// is current.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { metricFamilies, metrics } from "../packages/stateset-agents/src/run/metrics.ts";
import { type MetricUses, metricUses } from "./metric-uses.ts";

export function metricsPage(uses: MetricUses = metricUses()): string {
  const families = Object.entries(metricFamilies).map(([name, metric]): [string, string, Row] => [
    name,
    `${name}<name>`,
    metric,
  ]);
  const known = Object.entries(metrics).map(([name, metric]): [string, string, Row] => [name, name, metric]);
  const row = ([name, shown, { meaning, unit, learners }]: [string, string, Row]) => {
    const by = (of: Map<string, Set<string>>) => modules(of, name).map((module) => `\`${module}\``);
    const readers = by(uses.readers);
    const cells = [
      `\`${shown}\``,
      meaning.replaceAll("|", "\\|"),
      unit,
      learners.join(", "),
      by(uses.writers).join(", "),
    ];
    return `| ${[...cells, readers.length === 0 ? "nobody by name" : readers.join(", ")].join(" | ")} |`;
  };
  return `# Metrics

Every number a run writes, with its meaning, who writes it and who reads it: in \`metrics.jsonl\` one line a step, \`step\` being its key.
Trackers (TensorBoard, W&B, files, OpenTelemetry, your own), \`runs export\` and the live view's JSON get all of them; the last column says who asks for one by its name.
The table is [\`run/metrics.ts\`](../../packages/stateset-agents/src/run/metrics.ts), and \`StepMetrics\` is typed by it: to read a name that nobody writes is a type error.
A number that is missing, or was not finite, says that there was nothing to report. Nothing here depends on the clock.

Learners: \`rl\` is every algorithm of \`train()\`; a share lies between 0 and 1; a reward counts in whatever yours does.
What an algorithm of your own reports in \`metrics\` keeps its name where this table has it among those of the algorithms (\`kl\`, \`ratio\`, …) and is otherwise \`own/<name>\`.

| metric | meaning | unit | learners | written in | read in |
|---|---|---|---|---|---|
${[...known, ...families].map(row).join("\n")}
`;
}

type Row = { meaning: string; unit: string; learners: readonly string[] };

/** Who uses a metric by its name, or by the family it is of. */
export function modules(of: ReadonlyMap<string, ReadonlySet<string>>, name: string): string[] {
  const families = Object.keys(metricFamilies).filter((family) => name.startsWith(family) || name === family);
  return [...new Set([name, ...families].flatMap((key) => [...(of.get(key) ?? [])]))].sort();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(fileURLToPath(new URL("../docs/reference/metrics.md", import.meta.url)), metricsPage());
}
