/** The marks of a chart as words, for whoever does not point at them. */
import { plural } from "../view/parts/number.ts";
import { Text } from "../view/parts/text.tsx";
import { type ChartMark, markColour } from "./marks.ts";
import { formatX, type XAxis } from "./plot.ts";

export function MarkList({ marks, x }: { marks: readonly ChartMark[]; x: XAxis }) {
  return (
    <details class="mark-list">
      <summary>{plural(marks.length, "mark")}</summary>
      <ul>
        {marks.map((mark, i) => (
          <li key={i}>
            <span class="swatch" style={{ background: markColour[mark.kind] }} />
            <span class="faint">
              {x} {formatX(x, mark.x)}
            </span>{" "}
            {mark.href ? (
              <a href={mark.href}>
                <Text value={mark.text} />
              </a>
            ) : (
              <Text value={mark.text} />
            )}
          </li>
        ))}
      </ul>
    </details>
  );
}
