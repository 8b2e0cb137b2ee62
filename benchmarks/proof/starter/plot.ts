import { colours, drawPanels } from "../../panels.ts";
import { learnerName } from "./measure.ts";
import { learners as all } from "./report.ts";
import { type TaskName, tasks } from "./tasks.ts";
import { judgeStarter, type StarterRun } from "./verdict.ts";

/** A panel a task, a row a learner: from the untrained model to the mean after training and with the sign flipped; small dots are seeds. */
export function plotStarter(runs: readonly StarterRun[]): string {
  const names = Object.keys(tasks) as TaskName[];
  const learners = all.filter((learner) => names.some((task) => judgeStarter(runs, task, learner)));
  return drawPanels({
    title: "Before, after and flipped on each task",
    heading: "Held-out score on the starter model, at defaults",
    legend: "grey: untrained · blue: after training (small: each seed) · red: sign flipped",
    rows: learners.map(learnerName),
    panel: { width: 230, row: 17, left: 168 },
    columns: names.map((task) => ({
      name: task,
      before: learners.flatMap((learner) => judgeStarter(runs, task, learner)?.before ?? [])[0],
      marks(row, { dot, line }) {
        const verdict = judgeStarter(runs, task, learners[row]!);
        if (!verdict) return [];
        const { before, after, bySeed, flipped } = verdict;
        const red = { colour: colours.flipped };
        return [
          line(before, after),
          ...bySeed.map((score) => dot(score, { seed: true })),
          dot(after),
          ...(flipped ? [line(before, flipped.after, red), dot(flipped.after, red)] : []),
        ];
      },
    })),
  });
}
