import { baseline, baselines, run } from "./settings.ts";
import type { Verdict } from "./verdict.ts";

const columns = 4;
const panel = { width: 176, height: 92 };
const gap = { x: 22, y: 34 };
const frame = { left: 34, top: 74, bottom: 34, right: 14 };
/** Keeps curves at 0 and 1 off the frame. */
const inset = 4;
const colours = { right: "#2563eb", flipped: "#dc2626", baseline: "#64748b" };

/** Small multiples: one panel an algorithm, by conversations sampled. A curve ends in what was measured after training. */
export function plot(verdicts: Readonly<Record<string, Verdict>>): string {
  const entries = Object.entries(verdicts);
  const width = frame.left + columns * (panel.width + gap.x) - gap.x + frame.right;
  const height = frame.top + Math.ceil(entries.length / columns) * (panel.height + gap.y) - gap.y + frame.bottom;
  const level = verdicts[baseline]?.after;
  const panels = entries.map(([name, verdict], i) => {
    const x = frame.left + (i % columns) * (panel.width + gap.x);
    const y = frame.top + Math.floor(i / columns) * (panel.height + gap.y);
    const below = i + columns >= entries.length;
    const at = (share: number) => y + inset + (1 - share) * (panel.height - 2 * inset);
    const number = (px: number, py: number, text: string, anchor: string) =>
      `<text x="${px}" y="${py}" text-anchor="${anchor}" fill="#64748b">${text}</text>`;
    return [
      `<rect x="${x}" y="${y}" width="${panel.width}" height="${panel.height}" fill="none" stroke="#cbd5e1"/>`,
      `<text x="${x}" y="${y - 7}" font-weight="600">${name}</text>`,
      number(x + panel.width, y - 7, verdict.after.toFixed(3), "end"),
      i % columns === 0 ? number(x - 6, y + 9, "1", "end") + number(x - 6, y + panel.height, "0", "end") : "",
      below
        ? number(x, y + panel.height + 15, "0", "start") +
          number(x + panel.width, y + panel.height + 15, String(run.steps * run.groupsPerStep * run.groupSize), "end")
        : "",
      level === undefined || name in baselines ? "" : levelLine(x, at(level)),
      curve(x, at, verdict.flippedCurve, verdict.flipped, `stroke="${colours.flipped}" stroke-dasharray="4 3"`),
      curve(x, at, verdict.curve, verdict.after, `stroke="${colours.right}"`),
    ].join("\n");
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="11" fill="#334155">
<title>Learning curves of every algorithm</title>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="${frame.left}" y="20" font-size="13" font-weight="600">Share of right letters, by conversations sampled (mean over the seeds)</text>
${legend()}
${panels.join("\n")}
</svg>
`;
}

function levelLine(x: number, y: number): string {
  return `<line x1="${x}" x2="${x + panel.width}" y1="${y.toFixed(1)}" y2="${y.toFixed(1)}" stroke="${colours.baseline}" stroke-dasharray="1 3" stroke-width="1.4"/>`;
}

/** Steps, not slopes: all conversations of a step (or harvest) come from the same weights. */
function curve(
  x: number,
  at: (share: number) => number,
  shares: readonly number[],
  end: number,
  style: string,
): string {
  const points = shares.flatMap((share, k) =>
    [k, k + 1].map((edge) => `${(x + (edge / shares.length) * panel.width).toFixed(1)},${at(share).toFixed(1)}`),
  );
  points.push(`${(x + panel.width).toFixed(1)},${at(end).toFixed(1)}`);
  return `<polyline fill="none" stroke-width="1.6" stroke-linejoin="round" ${style} points="${points.join(" ")}"/>`;
}

function legend(): string {
  const entries: [string, string, number][] = [
    [`stroke="${colours.right}"`, "training", 0],
    [`stroke="${colours.flipped}" stroke-dasharray="4 3"`, "with the reward's sign flipped", 92],
    [`stroke="${colours.baseline}" stroke-dasharray="1 3"`, "SFT on best-of-N, one round, after training", 306],
  ];
  return entries
    .map(([style, text, offset]) => {
      const x = frame.left + offset;
      return `<line x1="${x}" x2="${x + 22}" y1="38" y2="38" stroke-width="1.8" ${style}/><text x="${x + 28}" y="42">${text}</text>`;
    })
    .join("\n");
}
