/** Where the time went. */
import type { RunData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { lineColour } from "../../chart/colours.ts";
import { duration, percent } from "../parts/number.ts";

export function TimeSplit({ time }: { time: RunData["time"] }) {
  const parts = [
    { name: "rollout", ms: time.rolloutMs, colour: 0 },
    { name: "update", ms: time.updateMs, colour: 1 },
    { name: "other", ms: time.otherMs, colour: 7 },
  ].filter(({ ms }) => ms > 0);
  const all = parts.reduce((sum, { ms }) => sum + ms, 0);
  if (all === 0) return <p class="faint">No step has ended yet.</p>;
  return (
    <div class="stack">
      <div class="split" aria-hidden="true">
        {parts.map(({ name, ms, colour }) => (
          <span key={name} style={{ flexGrow: ms / all, background: lineColour(colour) }} />
        ))}
      </div>
      <dl class="split-list">
        {parts.map(({ name, ms, colour }) => (
          <div key={name}>
            <dt>
              <span class="swatch" style={{ background: lineColour(colour) }} /> {name}
            </dt>
            <dd>{duration(ms)}</dd>
            <dd class="faint">{percent(ms / all)}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}
