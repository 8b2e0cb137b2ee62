/** Any number the run writes, with what it means. */
import { useState } from "preact/hooks";
import { joinNames } from "../../data/list.ts";
import { setQuery } from "../../data/url.ts";
import { number } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import type { Charts } from "./choose-charts.ts";

export function MetricPicker({ charts: { choice, rest } }: { charts: Charts }) {
  const [search, setSearch] = useState("");
  const wanted = search.trim().toLowerCase();
  const found = choice.filter(({ name, meaning }) => `${name} ${meaning}`.toLowerCase().includes(wanted));
  const toggle = (name: string) => {
    const now = rest.includes(name) ? rest.filter((one) => one !== name) : [...rest, name];
    setQuery({ metrics: joinNames(now) || "none" });
  };
  return (
    <details class="metric-picker">
      <summary class="button">Curves ({rest.length})</summary>
      <div class="metric-picker-box">
        <div class="row">
          <input
            class="input grow"
            type="search"
            aria-label="Find a metric"
            placeholder="Find a metric"
            value={search}
            onInput={(event) => setSearch(event.currentTarget.value)}
          />
          <button type="button" class="button small" onClick={() => setQuery({ metrics: undefined })}>
            The usual ones
          </button>
        </div>
        <ul>
          {found.map(({ name, meaning, last, unit }) => (
            <li key={name}>
              <label>
                <input type="checkbox" checked={rest.includes(name)} onChange={() => toggle(name)} />
                <span>
                  <code>
                    <Text value={name} />
                  </code>{" "}
                  <span class="faint">
                    {number(last)} {unit}
                  </span>
                  <small>
                    <Text value={meaning} />
                  </small>
                </span>
              </label>
            </li>
          ))}
        </ul>
        {found.length === 0 && <p class="faint">The run writes no such number.</p>}
      </div>
    </details>
  );
}
