/** Before and after on one scale: a hollow point, a full one, their intervals, and the way between them. */
import type { EstimateData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { estimate } from "../parts/number.ts";
import "./dumbbell.css";
import type { Scale } from "./scale.ts";

const width = 200;
const height = 22;
const margin = 6;

export function Dumbbell({ before, after, scale }: { before: EstimateData; after: EstimateData; scale: Scale }) {
  const x = (value: number) => margin + scale.share(value) * (width - 2 * margin);
  const [from, to] = [before.mean, after.mean];
  const direction = from === null || to === null || from === to ? "same" : to > from ? "better" : "worse";
  return (
    <svg
      class={`dumbbell change-${direction}`}
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={`before ${estimate(before)}, after ${estimate(after)}`}
    >
      <line class="dumbbell-axis" x1={margin} x2={width - margin} y1={height / 2} y2={height / 2} />
      <Interval of={before} x={x} y={6} name="before" />
      <Interval of={after} x={x} y={16} name="after" />
      {from !== null && to !== null && <line class="dumbbell-way" x1={x(from)} y1={6} x2={x(to)} y2={16} />}
      {from !== null && <circle class="dumbbell-before" cx={x(from)} cy={6} r={3.5} />}
      {to !== null && <circle class="dumbbell-after" cx={x(to)} cy={16} r={4} />}
    </svg>
  );
}

function Interval({ of, x, y, name }: { of: EstimateData; x: (value: number) => number; y: number; name: string }) {
  if (of.low === undefined || of.high === undefined) return null;
  return <line class={`dumbbell-interval dumbbell-interval-${name}`} x1={x(of.low)} x2={x(of.high)} y1={y} y2={y} />;
}
