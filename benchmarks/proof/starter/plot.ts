import { learnerName } from "./measure.ts";
import { learners as all } from "./report.ts";
import { type TaskName, tasks } from "./tasks.ts";
import { judgeStarter, type StarterRun } from "./verdict.ts";

const panel = { width: 230, gap: 26, row: 17 };
const frame = { left: 168, top: 62, bottom: 26, right: 16 };
const colours = { right: "#2563eb", flipped: "#dc2626", before: "#94a3b8" };

/** A panel a task, a row a learner: from the untrained model (grey line) to the mean after training and with the sign flipped; small dots are seeds. */
export function plotStarter(runs: readonly StarterRun[]): string {
  const names = Object.keys(tasks) as TaskName[];
  const learners = all.filter((learner) => names.some((task) => judgeStarter(runs, task, learner)));
  const width = frame.left + names.length * (panel.width + panel.gap) - panel.gap + frame.right;
  const bottom = frame.top + learners.length * panel.row;
  const labels = learners.map((learner, i) => text(frame.left - 10, rowAt(i) + 4, learnerName(learner), "end"));
  const panels = names.map((task, column) => {
    const left = frame.left + column * (panel.width + panel.gap);
    const at = (score: number) => (left + score * panel.width).toFixed(1);
    const rows = learners.map((learner, i) => {
      const verdict = judgeStarter(runs, task, learner);
      if (!verdict) return "";
      const y = rowAt(i);
      const { before, after, bySeed, flipped } = verdict;
      const dot = (score: number, colour: string, radius: number, opacity = 1) =>
        `<circle cx="${at(score)}" cy="${y}" r="${radius}" fill="${colour}" fill-opacity="${opacity}"/>`;
      const line = (score: number, colour: string) =>
        `<line x1="${at(before)}" y1="${y}" x2="${at(score)}" y2="${y}" stroke="${colour}" stroke-width="2"/>`;
      return [
        line(after, colours.right),
        ...bySeed.map((score) => dot(score, colours.right, 2.2, 0.45)),
        dot(after, colours.right, 3.6),
        ...(flipped ? [line(flipped.after, colours.flipped), dot(flipped.after, colours.flipped, 3.6)] : []),
      ].join("\n");
    });
    const before = learners.flatMap((learner) => judgeStarter(runs, task, learner)?.before ?? [])[0];
    return [
      `<rect x="${left}" y="${frame.top - 4}" width="${panel.width}" height="${bottom - frame.top + 4}" fill="none" stroke="#cbd5e1"/>`,
      `<text x="${left}" y="${frame.top - 12}" font-weight="600">${task}</text>`,
      text(left, bottom + 15, "0", "start") + text(left + panel.width, bottom + 15, "1", "end"),
      before === undefined
        ? ""
        : `<line x1="${at(before)}" y1="${frame.top - 4}" x2="${at(before)}" y2="${bottom}" stroke="${colours.before}"/>`,
      ...rows,
    ].join("\n");
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${bottom + frame.bottom}" font-family="system-ui, sans-serif" font-size="11" fill="#334155">
<title>Before, after and flipped on each task</title>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="10" y="22" font-size="14" font-weight="600">Held-out score on the starter model, at defaults</text>
<text x="10" y="38" fill="#64748b">grey: untrained · blue: after training (small: each seed) · red: sign flipped</text>
${[...labels, ...panels].join("\n")}
</svg>
`;
}

function rowAt(i: number): number {
  return frame.top + (i + 0.5) * panel.row;
}

function text(x: number, y: number, words: string, anchor: string): string {
  return `<text x="${x}" y="${y}" text-anchor="${anchor}" fill="#64748b">${words}</text>`;
}
