/** A small curve without axes. Gaps stay gaps. */
import { number } from "./number.ts";
import { sparkPath } from "./spark-path.ts";

const width = 96;
const height = 20;

export function Sparkline({ points, label }: { points: readonly (number | null)[]; label: string }) {
  const known = points.filter((point): point is number => point !== null && Number.isFinite(point));
  if (known.length === 0) return <span class="faint">–</span>;
  return (
    <svg
      class="sparkline"
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={`${label}: ${number(known[0])} to ${number(known.at(-1))}, between ${number(Math.min(...known))} and ${number(Math.max(...known))}`}
    >
      <path d={sparkPath(points, width, height)} />
    </svg>
  );
}
