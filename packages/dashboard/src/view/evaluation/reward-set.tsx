/** Conversations on scenarios held out: the verdict, the way there, the parts, and each scenario. */
import { useMemo } from "preact/hooks";
import type { EvaluationData, EvaluationsData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { type ChartMark, LineChart } from "../../chart/line-chart.tsx";
import { estimate, number, plural } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import { beforeAfter, courseOf, failuresOf, overSteps, type SetName, scenariosOf } from "./course.ts";
import { PartTable } from "./part-table.tsx";
import { Scenarios } from "./scenarios.tsx";
import { outcomeOf, verdictWords } from "./words.ts";

export function RewardSet({ data, set, run }: { data: EvaluationsData; set: SetName; run: string }) {
  const course = useMemo(() => courseOf(data, set), [data, set]);
  const scenarios = useMemo(() => scenariosOf(data, set), [data, set]);
  const change = data.changes.find((one) => one.set === set);
  const rewards = useMemo(() => {
    const measured = course.filter(({ reward }) => reward !== null);
    return [
      {
        name: "reward",
        kind: "points" as const,
        joined: true,
        x: measured.map(({ step }) => step),
        y: measured.map(({ reward }) => reward?.mean ?? Number.NaN),
        low: measured.map(({ reward }) => reward?.low ?? Number.NaN),
        high: measured.map(({ reward }) => reward?.high ?? Number.NaN),
      },
    ];
  }, [course]);
  const parts = beforeAfter(course, "parts");
  const partSeries = useMemo(() => parts.map(({ name }) => overSteps(course, "parts", name)), [course]);
  const marks = useMemo(() => course.flatMap(markOf), [course]);
  const last = course.at(-1)!;
  return (
    <>
      <section class="card evaluation-verdict">
        {change ? (
          <p class={`evaluation-words change-${outcomeOf(change.difference)}`}>
            <strong>{verdictWords(change.difference, change.pValue)}</strong>
            <span class="faint">
              {" "}
              step {number(change.from)} → {number(change.to)}, paired by scenario
            </span>
          </p>
        ) : (
          <p>
            <strong>{estimate(last.reward)}</strong>
            <span class="faint">
              {" "}
              at step {number(last.step)}: evaluated once so far, so there is nothing to compare with.
            </span>
          </p>
        )}
        <p class="soft">
          {course.length > 1 && <>{estimate(course[0]!.reward)} → </>}
          {course.length > 1 && estimate(last.reward)}
          {course.length > 1 && ", "}
          {plural(last.scenarios.length, "scenario")}
          {last.weightsOf !== null && `, with the weights of step ${number(last.weightsOf)}`}
          {last.failed > 0 && (
            <span class="wrong">
              {", "}in {plural(last.failed, "conversation")} the environment threw at a reply, which counts
            </span>
          )}
          {last.lost > 0 && (
            <span class="wrong">
              {", "}
              {last.lost === 1
                ? "1 conversation was lost and is"
                : `${number(last.lost)} conversations were lost and are`}{" "}
              not counted
            </span>
          )}
        </p>
      </section>
      <div class="evaluation-charts">
        <LineChart
          title="Reward, 95% intervals"
          series={rewards}
          bounds={[0, 1]}
          marks={marks}
          listMarks
          sync="evaluation"
        />
        {parts.length > 0 && <LineChart title="Parts of the reward" series={partSeries} sync="evaluation" />}
        <PartTable title="Parts, before and after" parts={parts} />
      </div>
      <Failures course={course} />
      <Scenarios run={run} rows={scenarios} from={change?.from} to={change?.to ?? last.step} />
    </>
  );
}

/** An evaluation of other weights than those of its step, or with conversations that came to nothing, says so on the curve. */
function markOf({ step, weightsOf, failed, lost }: EvaluationData): ChartMark[] {
  const marks: ChartMark[] = [];
  if (weightsOf !== null && weightsOf !== step)
    marks.push({ x: step, kind: "note", text: `measured with the weights of step ${weightsOf}` });
  if (failed + lost > 0) {
    const words = [failed > 0 ? `${failed} failed` : "", lost > 0 ? `${lost} lost` : ""].filter(Boolean);
    marks.push({ x: step, kind: "warning", text: `${words.join(", ")} at step ${step}` });
  }
  return marks;
}

function Failures({ course }: { course: readonly EvaluationData[] }) {
  const failures = failuresOf(course);
  if (failures.length === 0) return null;
  return (
    <section class="card" aria-labelledby="failures">
      <h2 id="failures">What failed</h2>
      <ul class="evaluation-failures">
        {failures.map(({ message, steps }) => (
          <li key={message}>
            <span class="wrong">
              <Text value={message} />
            </span>{" "}
            <span class="faint">
              {steps.length === 1 ? "step" : "steps"} {steps.join(", ")}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
