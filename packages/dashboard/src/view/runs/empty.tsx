/** No runs: what makes one, or why none is shown. */
import type { RunsData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { setQuery } from "../../data/url.ts";
import { Text } from "../parts/text.tsx";

export function Empty({ data, filtered }: { data: RunsData; filtered: boolean }) {
  if (filtered) {
    return (
      <div class="empty" data-testid="empty">
        <p>No run fits the filter.</p>
        <button type="button" class="button" onClick={() => setQuery({ filter: undefined })}>
          Show all runs
        </button>
      </div>
    );
  }
  return (
    <div class="empty" data-testid="empty">
      <p>
        No runs yet in{" "}
        {data.folders.map(({ path }, i) => (
          <>
            {i > 0 && ", "}
            <code>
              <Text value={path} />
            </code>
          </>
        ))}
        . Either of these makes one:
      </p>
      <dl>
        <div>
          <dt>
            <code>npx stateset-agents demo</code>
          </dt>
          <dd>trains a small agent in about a minute, with nothing to set up</dd>
        </div>
        <div>
          <dt>
            <code>npx stateset-agents train</code>
          </dt>
          <dd>trains what stateset.config.ts describes</dd>
        </div>
      </dl>
      <p class="faint">It appears here by itself.</p>
    </div>
  );
}
