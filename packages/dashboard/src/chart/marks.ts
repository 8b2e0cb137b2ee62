/** Vertical lines at what happened: verdicts, adjustments, warnings. */
import type uPlot from "uplot";
import { resolved } from "./colours.ts";

export interface ChartMark {
  x: number;
  kind: "verdict" | "adjustment" | "warning" | "note";
  /** In words. */
  text: string;
  /** Where it can be looked at. */
  href?: string;
}

export const markColour: Readonly<Record<ChartMark["kind"], string>> = {
  verdict: "var(--bad)",
  adjustment: "var(--accent)",
  warning: "var(--warn)",
  note: "var(--ink-faint)",
};

export function drawMarks(plot: uPlot, marks: readonly ChartMark[]): void {
  const { ctx, bbox } = plot;
  const { min, max } = plot.scales.x!;
  const scale = devicePixelRatio;
  ctx.save();
  ctx.lineWidth = scale;
  ctx.setLineDash([3 * scale, 3 * scale]);
  for (const mark of marks) {
    if (mark.x < min! || mark.x > max!) continue;
    const x = Math.round(plot.valToPos(mark.x, "x", true)) + 0.5;
    ctx.strokeStyle = ctx.fillStyle = resolved(markColour[mark.kind]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    // A small flag at the top: the kind is told by colour and, under the cursor, in words.
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x + 6 * scale, bbox.top + 3 * scale);
    ctx.lineTo(x, bbox.top + 6 * scale);
    ctx.fill();
  }
  ctx.restore();
}

/** Those within a few pixels of the cursor. */
export function marksAt(plot: uPlot, marks: readonly ChartMark[], left: number): ChartMark[] {
  return marks.filter(({ x }) => Math.abs(plot.valToPos(x, "x") - left) <= 5);
}
