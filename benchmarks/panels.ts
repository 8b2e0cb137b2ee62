/** Shares from 0 to 1 as an SVG: a panel a column, a row a learner, a grey line where the untrained model is. */

export const colours = { after: "#2563eb", flipped: "#dc2626", before: "#94a3b8" };

/** Draws in one row of one panel. */
export interface Pen {
  dot(share: number, options?: { colour?: string; seed?: boolean }): string;
  /** From one share to another. */
  line(from: number, to: number, options?: { colour?: string; opacity?: number }): string;
}

export interface Panels {
  title: string;
  heading: string;
  legend: string;
  /** Names of the rows. */
  rows: readonly string[];
  panel: { width: number; row: number; left: number };
  columns: readonly { name: string; before: number | undefined; marks(row: number, pen: Pen): readonly string[] }[];
}

const gap = 24;
const [top, foot, margin] = [62, 26, 16];

export function drawPanels({ title, heading, legend, rows, panel, columns }: Panels): string {
  const width = panel.left + columns.length * (panel.width + gap) - gap + margin;
  const bottom = top + Math.max(1, rows.length) * panel.row;
  const middle = (row: number) => top + (row + 0.5) * panel.row;
  const labels = rows.map((name, row) => text(panel.left - 10, middle(row) + 4, name, "end"));
  const drawn = columns.map(({ name, before, marks }, column) => {
    const left = panel.left + column * (panel.width + gap);
    const at = (share: number) => (left + share * panel.width).toFixed(1);
    return [
      `<rect x="${left}" y="${top - 4}" width="${panel.width}" height="${bottom - top + 4}" fill="none" stroke="#cbd5e1"/>`,
      `<text x="${left}" y="${top - 12}" font-weight="600">${name}</text>`,
      text(left, bottom + 15, "0", "start") + text(left + panel.width, bottom + 15, "1", "end"),
      before === undefined
        ? ""
        : `<line x1="${at(before)}" y1="${top - 4}" x2="${at(before)}" y2="${bottom}" stroke="${colours.before}"/>`,
      ...rows.map((_, row) => marks(row, penAt(at, middle(row))).join("\n")),
    ].join("\n");
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${bottom + foot}" font-family="system-ui, sans-serif" font-size="11" fill="#334155">
<title>${title}</title>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="10" y="22" font-size="14" font-weight="600">${heading}</text>
<text x="10" y="38" fill="#64748b">${legend}</text>
${[...labels, ...drawn].join("\n")}
</svg>
`;
}

function penAt(at: (share: number) => string, y: number): Pen {
  return {
    dot: (share, { colour = colours.after, seed = false } = {}) =>
      `<circle cx="${at(share)}" cy="${y}" r="${seed ? 2.2 : 3.6}" fill="${colour}" fill-opacity="${seed ? 0.45 : 1}"/>`,
    line: (from, to, { colour = colours.after, opacity = 1 } = {}) =>
      `<line x1="${at(from)}" y1="${y}" x2="${at(to)}" y2="${y}" stroke="${colour}" stroke-width="2" stroke-opacity="${opacity}"/>`,
  };
}

function text(x: number, y: number, words: string, anchor: string): string {
  return `<text x="${x}" y="${y}" text-anchor="${anchor}" fill="#64748b">${words}</text>`;
}
