/** Before and after on one scale: a hollow point, a full one, their intervals, and the way between them. As wide as there is room. */
import type { EstimateData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { estimate } from "../parts/number.ts";
import "./dumbbell.css";
import type { Scale } from "./scale.ts";

const rows = { before: 6, axis: 11, after: 16 };

interface Props {
  before: EstimateData;
  after: EstimateData;
  scale: Scale;
  /** Of a loss. */
  lowerIsBetter?: boolean;
}

export function Dumbbell({ before, after, scale, lowerIsBetter = false }: Props) {
  // Points at the ends are not cut in half.
  const x = (value: number) => `${2 + scale.share(value) * 96}%`;
  const [from, to] = [before.mean, after.mean];
  const moved = from !== null && to !== null && from !== to;
  const direction = !moved ? "same" : to > from !== lowerIsBetter ? "better" : "worse";
  return (
    <svg
      class={`dumbbell change-${direction}`}
      role="img"
      aria-label={`before ${estimate(before)}, after ${estimate(after)}`}
    >
      <line class="dumbbell-axis" x1="2%" x2="98%" y1={rows.axis} y2={rows.axis} />
      <Interval of={before} x={x} name="before" />
      <Interval of={after} x={x} name="after" />
      {from !== null && to !== null && (
        <line class="dumbbell-way" x1={x(from)} y1={rows.before} x2={x(to)} y2={rows.after} />
      )}
      {from !== null && <circle class="dumbbell-before" cx={x(from)} cy={rows.before} r={3.5} />}
      {to !== null && <circle class="dumbbell-after" cx={x(to)} cy={rows.after} r={4} />}
    </svg>
  );
}

interface IntervalProps {
  of: EstimateData;
  x(value: number): string;
  name: "before" | "after";
}

function Interval({ of, x, name }: IntervalProps) {
  if (of.low === undefined || of.high === undefined) return null;
  const y = rows[name];
  return <line class={`dumbbell-interval dumbbell-interval-${name}`} x1={x(of.low)} x2={x(of.high)} y1={y} y2={y} />;
}
