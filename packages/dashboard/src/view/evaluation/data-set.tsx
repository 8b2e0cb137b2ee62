/** Held-out data of SFT, DPO and their kin: numbers over steps. */
import { useMemo } from "preact/hooks";
import type { EvaluationData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { LineChart } from "../../chart/line-chart.tsx";
import { plural } from "../parts/number.ts";
import { beforeAfter, overSteps } from "./course.ts";
import { PartTable } from "./part-table.tsx";

export function DataSet({ course }: { course: readonly EvaluationData[] }) {
  const numbers = useMemo(() => beforeAfter(course, "numbers"), [course]);
  const charts = useMemo(
    () => numbers.map(({ name }) => ({ name, series: [{ ...overSteps(course, "numbers", name) }] })),
    [course, numbers],
  );
  return (
    <>
      <PartTable title={`Held-out data, ${plural(course.length, "evaluation")}`} parts={numbers} />
      <div class="evaluation-charts">
        {charts.map(({ name, series }) => (
          <LineChart key={name} title={name} series={series} sync="evaluation" height={180} />
        ))}
      </div>
    </>
  );
}
