/** The numbers of a chart. */
import { number } from "../view/parts/number.ts";
import { Text } from "../view/parts/text.tsx";
import { type ChartSeries, nearest } from "./chart-data.ts";
import { formatX, type XAxis } from "./plot.ts";

/** More rows than anybody reads. */
const mostRows = 200;

interface Props {
  title: string;
  series: readonly ChartSeries[];
  x: XAxis;
  /** Where all points are to be had. */
  allIn?: string | undefined;
}

export function DataTable({ title, series, x, allIn }: Props) {
  const longest = series.reduce<ArrayLike<number>>((most, one) => (one.x.length > most.length ? one.x : most), []);
  const stride = Math.ceil(longest.length / mostRows) || 1;
  const rows = Array.from({ length: Math.ceil(longest.length / stride) }, (_, i) => longest[i * stride]!);
  return (
    <div class="chart-table" tabIndex={0} role="region" aria-label={`Numbers of ${title}`}>
      <table class="table">
        <caption class="unseen">{title}</caption>
        <thead>
          <tr>
            <th scope="col">{x}</th>
            {series.map((one, i) => (
              <th key={i} scope="col" class="right">
                <Text value={one.name} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((at) => (
            <tr key={at}>
              <th scope="row">{formatX(x, at)}</th>
              {series.map((one, i) => {
                const found = nearest(one.x, at);
                return (
                  <td key={i} class="right">
                    {found >= 0 && one.x[found] === at ? number(one.y[found]) : ""}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
      {stride > 1 && (
        <p class="faint">
          One point of every {stride}
          {allIn && `; ${allIn} has all of them`}.
        </p>
      )}
    </div>
  );
}
