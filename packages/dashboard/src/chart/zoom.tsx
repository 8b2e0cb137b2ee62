/** What of its axis is shown, where somebody zoomed in: in the address, one for all curves of a view, with a way out. */
import { useMemo } from "preact/hooks";
import { useKeys } from "../data/keys.ts";
import { place, setQuery } from "../data/url.ts";
import type { ChartRange } from "./line-chart.tsx";

/** What a chart is to be given. Without a zoom there is no range, so that it grows with its curve. */
export interface Zoom {
  range?: Partial<ChartRange>;
  onRange(range: ChartRange | null): void;
}

export function useZoom(): Zoom {
  const { from, to } = place.value.query;
  return useMemo(() => {
    const [start, end] = [numberIn(from), numberIn(to)];
    const range = { ...(start !== undefined && { from: start }), ...(end !== undefined && { to: end }) };
    return { onRange, ...(Object.keys(range).length > 0 && { range }) };
  }, [from, to]);
}

function onRange(range: ChartRange | null): void {
  setQuery({ from: range ? exact(range.from) : undefined, to: range ? exact(range.to) : undefined });
}

/** Beside what else says how curves are drawn. */
export function ShowAll() {
  const { range } = useZoom();
  useKeys([{ key: "0", does: "Show all of the curves", run: () => onRange(null) }]);
  if (!range) return null;
  return (
    <button type="button" class="button" onClick={() => onRange(null)}>
      Show all of it
    </button>
  );
}

function numberIn(text: string | undefined): number | undefined {
  return text === undefined || !Number.isFinite(Number(text)) ? undefined : Number(text);
}

/** As short as tells the place. */
const exact = (value: number) => String(Number(value.toPrecision(7)));
