/** Success by class in the shop: a panel a class, a row a way; the grey line is the untrained model, small dots are seeds, bars 95% intervals over tasks. */
import { taskClasses } from "stateset-agents/tools";
import { estimate, grouped, mean, perTask, type ToolsRun } from "./measures.ts";
import { starter } from "./plan.ts";

const panel = { width: 168, gap: 22, row: 20 };
const frame = { left: 130, top: 62, bottom: 26, right: 16 };
const colours = { after: "#2563eb", before: "#94a3b8" };

export function plot(all: readonly ToolsRun[]): string {
  const runs = all.filter(({ job }) => job.model === starter && job.domain === "retail" && job.level === 1);
  const untrained = runs.filter(({ job }) => job.way === "untrained");
  const rows = grouped(
    runs.filter(({ job }) => job.way !== "untrained"),
    ({ job }) => job.way,
  );
  const width = frame.left + taskClasses.length * (panel.width + panel.gap) - panel.gap + frame.right;
  const bottom = frame.top + Math.max(1, rows.length) * panel.row;
  const labels = rows.map((own, i) => text(frame.left - 10, rowAt(i) + 4, own[0]!.job.way, "end"));
  const panels = taskClasses.map((topic, column) => {
    const left = frame.left + column * (panel.width + panel.gap);
    const at = (share: number) => (left + share * panel.width).toFixed(1);
    const before = untrained.length > 0 ? mean(perTask(untrained, topic)) : undefined;
    const marks = rows.map((own, i) => {
      const y = rowAt(i);
      const { mean: middle, low, high } = estimate(own, topic);
      const dot = (share: number, radius: number, opacity = 1) =>
        `<circle cx="${at(share)}" cy="${y}" r="${radius}" fill="${colours.after}" fill-opacity="${opacity}"/>`;
      return [
        low === undefined
          ? ""
          : `<line x1="${at(low)}" y1="${y}" x2="${at(high)}" y2="${y}" stroke="${colours.after}" stroke-width="2" stroke-opacity="0.35"/>`,
        ...own.map((run) => dot(mean(perTask([run], topic)), 2.2, 0.45)),
        dot(middle, 3.6),
      ].join("");
    });
    return [
      `<rect x="${left}" y="${frame.top - 4}" width="${panel.width}" height="${bottom - frame.top + 4}" fill="none" stroke="#cbd5e1"/>`,
      `<text x="${left}" y="${frame.top - 12}" font-weight="600">${topic}</text>`,
      text(left, bottom + 15, "0", "start") + text(left + panel.width, bottom + 15, "1", "end"),
      before === undefined
        ? ""
        : `<line x1="${at(before)}" y1="${frame.top - 4}" x2="${at(before)}" y2="${bottom}" stroke="${colours.before}" stroke-width="1.5"/>`,
      ...marks,
    ].join("\n");
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${bottom + frame.bottom}" font-family="system-ui, sans-serif" font-size="11" fill="#334155">
<title>Success by class in the shop</title>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="10" y="22" font-size="14" font-weight="600">The shop: success on held-out tasks, by class</text>
<text x="10" y="38" fill="#64748b">grey: untrained · blue: after learning, with a 95% interval over tasks (small: each seed)</text>
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
