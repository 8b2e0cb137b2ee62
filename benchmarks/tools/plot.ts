/** Success by class in the shop: a panel a class, a row a way; small dots are seeds, bars 95% intervals over tasks. */
import { taskClasses } from "stateset-agents/tools";
import { drawPanels } from "../panels.ts";
import { estimate, grouped, mean, perTask, type ToolsRun } from "./measures.ts";
import { starter } from "./plan.ts";

export function plot(all: readonly ToolsRun[]): string {
  const runs = all.filter(({ job }) => job.model === starter && job.domain === "retail" && job.level === 1);
  const untrained = runs.filter(({ job }) => job.way === "untrained");
  const rows = grouped(
    runs.filter(({ job }) => job.way !== "untrained"),
    ({ job }) => job.way,
  );
  return drawPanels({
    title: "Success by class in the shop",
    heading: "The shop: success on held-out tasks, by class",
    legend: "grey: untrained · blue: after learning, with a 95% interval over tasks (small: each seed)",
    rows: rows.map((own) => own[0]!.job.way),
    panel: { width: 168, row: 20, left: 130 },
    columns: taskClasses.map((topic) => ({
      name: topic,
      before: untrained.length > 0 ? mean(perTask(untrained, topic)) : undefined,
      marks(row, { dot, line }) {
        const own = rows[row]!;
        const { mean: middle, low, high } = estimate(own, topic);
        return [
          ...(low === undefined ? [] : [line(low, high, { opacity: 0.35 })]),
          ...own.map((run) => dot(mean(perTask([run], topic)), { seed: true })),
          dot(middle),
        ];
      },
    })),
  });
}
