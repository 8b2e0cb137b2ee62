/** The names of the lines, with their values at the cursor. Written into the page by hand: this happens at every move of the mouse. */
import type { Ref } from "preact";
import { useImperativeHandle, useRef } from "preact/hooks";
import { number } from "../view/parts/number.ts";
import { Text } from "../view/parts/text.tsx";
import { plain } from "../view/parts/visible.ts";
import { type ChartSeries, nearest } from "./chart-data.ts";
import { lineColour } from "./colours.ts";
import type { ChartMark } from "./marks.ts";
import { formatX, type XAxis } from "./plot.ts";

export interface LegendHandle {
  /** null: the last values. */
  show(at: number | null, marks: readonly ChartMark[]): void;
}

interface Props {
  handle: Ref<LegendHandle>;
  series: readonly ChartSeries[];
  x: XAxis;
  /** There are marks whose words need a line. */
  marked: boolean;
}

export function Legend({ handle, series, x, marked }: Props) {
  const place = useRef<HTMLSpanElement>(null);
  const values = useRef<(HTMLSpanElement | null)[]>([]);
  const words = useRef<HTMLSpanElement>(null);
  useImperativeHandle(
    handle,
    () => ({
      show(at, marks) {
        write(place.current, at === null ? "last" : `${x} ${formatX(x, at)}`);
        for (const [i, one] of series.entries()) write(values.current[i] ?? null, valueAt(one, at));
        write(words.current, marks.map(({ text }) => plain(text)).join(" · "));
      },
    }),
    [series, x],
  );
  return (
    <div class="legend" aria-hidden="true">
      <span ref={place} class="legend-x">
        last
      </span>
      {series.map((one, i) => (
        <span key={i} class="legend-item">
          <span class="swatch" style={{ background: lineColour(one.colour ?? i) }} />
          <Text value={one.name} />
          <span
            class="legend-value"
            ref={(element) => {
              values.current[i] = element;
            }}
          >
            {valueAt(one, null)}
          </span>
        </span>
      ))}
      {marked && <span ref={words} class="legend-marks cut" />}
    </div>
  );
}

function valueAt({ x, y }: ChartSeries, at: number | null): string {
  const i = at === null ? x.length - 1 : nearest(x, at);
  return i < 0 ? "–" : number(y[i]);
}

function write(element: HTMLElement | null, text: string): void {
  if (element && element.textContent !== text) element.textContent = text;
}
