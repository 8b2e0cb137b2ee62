/** The two curves of one case as an SVG: quality with its interval, marks where something was diagnosed or changed. */
import type { Curve } from "./main.ts";

const width = 760;
const height = 360;
const frame = { left: 60, right: 20, top: 46, bottom: 44 };
const colours = { plain: "#d1495b", adjusted: "#00798c" };
const titles = { rate: "A learning rate 20 times too high", hack: "A reward that counts courteous words" };

export function plot(curves: readonly Curve[]): string {
  const steps = Math.max(...curves.flatMap((curve) => curve.quality.map(({ step }) => step)));
  const x = (step: number) => frame.left + (step / steps) * (width - frame.left - frame.right);
  const y = (value: number) => height - frame.bottom - value * (height - frame.top - frame.bottom);
  const text = (px: number, py: number, words: string, extra = "") =>
    `<text x="${px.toFixed(1)}" y="${py.toFixed(1)}" font-size="12" fill="#444" ${extra}>${escaped(words)}</text>`;
  const parts: string[] = [];
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    parts.push(
      `<line x1="${frame.left}" x2="${width - frame.right}" y1="${y(value)}" y2="${y(value)}" stroke="#ddd"/>`,
    );
    parts.push(text(frame.left - 8, y(value) + 4, String(value), 'text-anchor="end"'));
  }
  for (let step = 0; step <= steps; step += 4)
    parts.push(text(x(step), height - frame.bottom + 18, String(step), 'text-anchor="middle"'));
  parts.push(text(width / 2, height - 8, "step", 'text-anchor="middle"'));
  for (const curve of curves) {
    const colour = curve.autoAdjust ? colours.adjusted : colours.plain;
    const band = [
      ...curve.quality.map((q) => [x(q.step), y(q.high)]),
      ...[...curve.quality].reverse().map((q) => [x(q.step), y(q.low)]),
    ];
    parts.push(`<polygon points="${points(band)}" fill="${colour}" opacity="0.15"/>`);
    parts.push(
      `<polyline points="${points(curve.quality.map((q) => [x(q.step), y(q.mean)]))}" fill="none" stroke="${colour}" stroke-width="2.5"/>`,
    );
    const row = curve.autoAdjust ? 1 : 0;
    // Both runs are the same until autoAdjust acts, so the diagnosis is drawn once.
    const diagnosed = curve.autoAdjust ? undefined : curve.verdicts.find(({ kind }) => kind !== "length-drift");
    if (diagnosed) {
      const at = x(diagnosed.step);
      parts.push(
        `<line x1="${at}" x2="${at}" y1="${frame.top}" y2="${height - frame.bottom}" stroke="#555" stroke-dasharray="3 4"/>`,
        text(at + 6, frame.top + 14, `step ${diagnosed.step}: diagnosed as ${diagnosed.kind}`, 'font-style="italic"'),
      );
    }
    for (const { step } of curve.adjustments)
      parts.push(`<circle cx="${x(step)}" cy="${height - frame.bottom}" r="4" fill="${colour}"/>`);
    const label = curve.autoAdjust ? "with autoAdjust (dots: its actions)" : "plain";
    parts.push(
      `<rect x="${frame.left + row * 120}" y="26" width="12" height="12" fill="${colour}"/>`,
      text(frame.left + 18 + row * 120, 36, label),
    );
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif">
<title>${titles[curves[0]!.case]}</title>
<rect width="${width}" height="${height}" fill="#fff"/>
<text x="${frame.left}" y="17" font-size="13" font-weight="600" fill="#222">${titles[curves[0]!.case]}: quality on held-out conversations (95% intervals)</text>
${parts.join("\n")}
</svg>
`;
}

function points(list: readonly (readonly number[])[]): string {
  return list.map(([px, py]) => `${px!.toFixed(1)},${py!.toFixed(1)}`).join(" ");
}

function escaped(words: string): string {
  return words.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
