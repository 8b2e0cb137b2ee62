/** The path of a small curve, within a box of one unit of margin. A point alone becomes a short dash. */
export function sparkPath(points: readonly (number | null)[], width: number, height: number): string {
  const known = points.filter((point): point is number => point !== null && Number.isFinite(point));
  if (known.length === 0) return "";
  const low = Math.min(...known);
  const range = Math.max(...known) - low;
  const x = (i: number) => round(1 + (points.length === 1 ? 0.5 : i / (points.length - 1)) * (width - 2));
  const y = (value: number) => round(1 + (range === 0 ? 0.5 : 1 - (value - low) / range) * (height - 2));
  let path = "";
  let drawing = false;
  points.forEach((point, i) => {
    const here = point !== null && Number.isFinite(point);
    if (here) {
      path += `${drawing ? "L" : "M"}${x(i)} ${y(point)}`;
      const next = points[i + 1];
      if (!drawing && (next === undefined || next === null || !Number.isFinite(next))) path += "h1";
    }
    drawing = here;
  });
  return path;
}

const round = (value: number) => Math.round(value * 10) / 10;
