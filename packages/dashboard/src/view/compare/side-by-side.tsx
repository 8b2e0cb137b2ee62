/** The conversations of one scenario, a column a run. */
import type { CompareData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { place, setQuery } from "../../data/url.ts";
import { Conversations } from "../evaluation/conversations.tsx";
import { Text } from "../parts/text.tsx";

const sets = ["evaluation", "training"] as const;

export function SideBySide({ scenario, runs }: { scenario: string; runs: CompareData["runs"] }) {
  const set = place.value.query.of === "training" ? "training" : "evaluation";
  return (
    <section class="card side-by-side" aria-labelledby="side-by-side">
      <div class="row">
        <h2 id="side-by-side">
          <Text value={scenario} />, conversations side by side
        </h2>
        <div class="segments" role="group" aria-label="Which conversations">
          {sets.map((name) => (
            <button
              key={name}
              type="button"
              class="button"
              aria-pressed={name === set}
              onClick={() => setQuery({ of: name })}
            >
              {name}
            </button>
          ))}
        </div>
        <button type="button" class="button quiet" onClick={() => setQuery({ scenario: undefined })}>
          Close
        </button>
      </div>
      <div class="wide side-columns" tabIndex={0} role="region" aria-label="Columns of conversations">
        {runs.map(({ key }) => (
          <Conversations key={key} title={key} run={key} scenario={scenario} set={set} />
        ))}
      </div>
    </section>
  );
}
