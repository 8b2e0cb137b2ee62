/** How curves are drawn, wherever there are any: over what, how smooth, on which scale. All of it is in the address. */
import { setQuery } from "../data/url.ts";
import type { XAxis } from "./line-chart.tsx";
import { ShowAll } from "./zoom.tsx";

const words: Readonly<Record<XAxis, string>> = { step: "Steps", time: "Time", tokens: "Tokens" };
export const axes = Object.keys(words) as XAxis[];

/** A zoom is of the axis that it was made on. */
export function chooseAxis(x: XAxis): void {
  setQuery({ x: x === "step" ? undefined : x, from: undefined, to: undefined }, { replace: false });
}

export function CurveFields({ x, smoothing, log }: { x: XAxis; smoothing: number; log: boolean }) {
  return (
    <>
      <div class="segments" role="group" aria-label="Over">
        {axes.map((axis) => (
          <button key={axis} type="button" class="button" aria-pressed={axis === x} onClick={() => chooseAxis(axis)}>
            {words[axis]}
          </button>
        ))}
      </div>
      <label class="field">
        Smoothing
        <input
          type="range"
          min={0}
          max={0.99}
          step={0.01}
          value={smoothing}
          onInput={(event) => setQuery({ smooth: event.currentTarget.value })}
        />
        <output class="smooth-value">{smoothing.toFixed(2)}</output>
      </label>
      <label class="field">
        <input
          type="checkbox"
          checked={log}
          onChange={(event) => setQuery({ log: event.currentTarget.checked ? "1" : undefined })}
        />
        Log scale
      </label>
      <ShowAll />
    </>
  );
}
