/** Which columns the table of runs has: as there is room, or those that were chosen. */
import { joinNames } from "../../data/list.ts";
import { setQuery } from "../../data/url.ts";
import { type Column, columns } from "./columns.tsx";

export function ColumnPicker({ shown }: { shown: readonly Column[] }) {
  const ids = shown.map(({ id }) => id);
  const toggle = (id: string) =>
    setQuery({ columns: joinNames(ids.includes(id) ? ids.filter((one) => one !== id) : [...ids, id]) });
  return (
    <details class="column-picker">
      <summary class="button">Columns</summary>
      <div class="column-picker-box">
        <ul>
          {columns
            .filter(({ always }) => !always)
            .map(({ id, title }) => (
              <li key={id}>
                <label class="field">
                  <input type="checkbox" checked={ids.includes(id)} onChange={() => toggle(id)} />
                  {title}
                </label>
              </li>
            ))}
        </ul>
        <button type="button" class="button small" onClick={() => setQuery({ columns: undefined })}>
          As there is room
        </button>
      </div>
    </details>
  );
}
