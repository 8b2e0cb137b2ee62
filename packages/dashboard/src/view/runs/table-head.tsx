import { setQuery } from "../../data/url.ts";
import type { Column } from "./columns.tsx";

interface Props {
  columns: readonly Column[];
  sort: string | undefined;
  fields: readonly string[];
}

/** A header sorts, the largest first; again, the other way; a third time, as it was. */
export function TableHead({ columns, sort, fields }: Props) {
  return (
    <div role="rowgroup" class="runs-head">
      <div role="row" class="run-line" aria-rowindex={1}>
        <div role="columnheader" class="cell-select">
          <span class="unseen">Chosen</span>
        </div>
        {columns.map(({ id, title, sort: by, right }) => {
          const way =
            by === undefined ? undefined : sort === by ? "ascending" : sort === `-${by}` ? "descending" : "none";
          return (
            <div key={id} role="columnheader" class={`cell-${id} ${right ? "right" : ""}`} aria-sort={way}>
              {by !== undefined && fields.includes(by) ? (
                <button
                  type="button"
                  class="sort-button"
                  onClick={() =>
                    setQuery({ sort: way === "descending" ? by : way === "ascending" ? undefined : `-${by}` })
                  }
                >
                  {title}
                  <span aria-hidden="true">{way === "descending" ? " ↓" : way === "ascending" ? " ↑" : ""}</span>
                </button>
              ) : (
                title
              )}
            </div>
          );
        })}
        <div role="columnheader" class="cell-tags">
          Tags and note
        </div>
      </div>
    </div>
  );
}
