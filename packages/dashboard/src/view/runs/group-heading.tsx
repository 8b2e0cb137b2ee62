import { joinNames } from "../../data/list.ts";
import { setQuery } from "../../data/url.ts";
import { number, plural } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import type { Line } from "./grouped.ts";

interface Props {
  field: string;
  line: Extract<Line, { kind: "heading" }>;
  closed: ReadonlySet<string>;
}

export function GroupHeading({ field, line, closed }: Props) {
  const toggle = () => {
    const now = new Set(closed);
    if (!now.delete(line.value)) now.add(line.value);
    setQuery({ closed: joinNames([...now]) || undefined });
  };
  return (
    <div role="row" class="group-heading">
      <div role="cell">
        <button type="button" class="button quiet" aria-expanded={!line.closed} onClick={toggle}>
          <span aria-hidden="true">{line.closed ? "▸" : "▾"}</span>
          <span class="faint">
            <Text value={field} />
          </span>
          <strong>
            <Text value={line.value || "not set"} />
          </strong>
        </button>
        <span class="faint">
          {plural(line.count, "run")}
          {line.reward !== null && `, mean of their last rewards ${number(line.reward, 3)}`}
        </span>
      </div>
    </div>
  );
}
