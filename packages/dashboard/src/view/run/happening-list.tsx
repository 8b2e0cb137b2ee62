/** Verdicts, adjustments and warnings in words, each with the way to conversations that show it. */
import type { RunData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { markColour } from "../../chart/marks.ts";
import { link } from "../../data/url.ts";
import { number } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import { folded, type Happening, nearestStep } from "./marks.ts";

const mostScenarios = 8;

export function HappeningList({ list, run }: { list: readonly Happening[]; run: RunData }) {
  if (list.length === 0) return <p class="faint">Nothing was found wrong, and nothing was changed on the way.</p>;
  return (
    <ol class="happenings">
      {folded(list).map((one) => (
        <li key={`${one.kind} ${one.name} ${one.step} ${one.text}`} data-kind={one.kind}>
          <div class="row">
            <span class="swatch" style={{ background: markColour[one.kind] }} />
            <strong>
              <Text value={one.name} />
            </strong>
            {one.severity && (
              <span class="chip">
                <Text value={one.severity} />
              </span>
            )}
            <span class="faint">
              step {number(one.step)}
              {one.count > 1 && ` to ${number(one.last)}, ${number(one.count)} times`}
            </span>
          </div>
          <p>
            <Text value={one.text} />
          </p>
          {one.advice && (
            <p class="soft">
              <Text value={one.advice} />
            </p>
          )}
          <Evidence one={one} run={run} />
        </li>
      ))}
    </ol>
  );
}

function Evidence({ one, run }: { one: Happening; run: RunData }) {
  const near = nearestStep(run.recordedSteps, one.step);
  if (near === undefined) return null;
  const to = ["run", run.key, "step", String(near)];
  const where = near === one.step ? `step ${near}` : `step ${near}, the nearest that was recorded`;
  if (one.scenarioIds.length === 0) return <a href={link(to, one.show)}>Conversations of {where}</a>;
  return (
    <p class="evidence">
      {one.scenarioIds.slice(0, mostScenarios).map((id) => (
        <a key={id} class="chip" href={link(to, { scenario: id })} title={`Conversations of ${where}`}>
          <Text value={id} />
        </a>
      ))}
      {one.scenarioIds.length > mostScenarios && (
        <span class="faint">and {one.scenarioIds.length - mostScenarios} more</span>
      )}
    </p>
  );
}
