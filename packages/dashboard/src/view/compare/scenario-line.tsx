/** One scenario: what each run reached, and how far that is from the base. */
import type { CompareData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { setQuery } from "../../data/url.ts";
import { number, signed } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import { plain } from "../parts/visible.ts";
import type { ScenarioValues } from "./scenario-table.ts";

interface Props {
  row: ScenarioValues;
  runs: CompareData["runs"];
  chosen: boolean;
}

export function ScenarioLine({ row, runs, chosen }: Props) {
  return (
    <button
      type="button"
      class="compare-line"
      aria-pressed={chosen}
      onClick={() => setQuery({ scenario: chosen ? undefined : row.id })}
    >
      <span class="cut">
        <Text value={row.id} />
      </span>
      {runs.map(({ key }, i) => {
        const difference = row.differences[i];
        return (
          <span key={key} class="right">
            <span class="unseen">{plain(key)} </span>
            {number(row.values[i], 3)}
            {difference !== null && difference !== undefined && (
              <small class={difference > 0 ? "change-better" : difference < 0 ? "change-worse" : "faint"}>
                {" "}
                {signed(difference, 2)}
              </small>
            )}
          </span>
        );
      })}
    </button>
  );
}
