/** The head of a group: what is known of its conversations so far. */
import { number } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import type { LiveGroup } from "./groups.ts";

export function GroupLine({ group, several }: { group: LiveGroup; several: boolean }) {
  const { run, step, scenario, count, rewarded, failed, waiting, mean, spread, min, max } = group;
  return (
    <div class="live-group">
      <h2>
        <Text value={scenario ?? group.group} />
      </h2>
      <span class="faint">
        {several && (
          <>
            <Text value={run} />
            {", "}
          </>
        )}
        step {step}
      </span>
      <span class="live-group-numbers">
        n = {count}
        {mean !== null && <> · mean {number(mean, 3)}</>}
        {spread !== null && <> ± {number(spread, 2)}</>}
        {min !== null && max !== null && rewarded > 1 && (
          <>
            {" · "}
            {number(min, 3)} – {number(max, 3)}
          </>
        )}
        {waiting > 0 && <> · {waiting} waiting</>}
        {failed > 0 && <span class="wrong"> · {failed} failed</span>}
      </span>
    </div>
  );
}
