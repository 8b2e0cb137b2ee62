/** Settings that differ, a column a run. */
import type { CompareData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { save } from "../../data/save.ts";
import { Text } from "../parts/text.tsx";
import { settingsCsv } from "./csv.ts";
import { RunName } from "./run-name.tsx";
import { valueText } from "./value-text.ts";

/** Longer values are folded. */
const longest = 80;

export function Settings({ data, colours }: { data: CompareData; colours: ReadonlyMap<string, number> }) {
  const { runs, settings } = data;
  if (runs.length < 2) return null;
  return (
    <section class="card" aria-labelledby="settings">
      <div class="row">
        <h2 id="settings">Settings that differ</h2>
        {settings.length > 0 && (
          <button
            type="button"
            class="button small"
            onClick={() => save(new Blob([settingsCsv(data)], { type: "text/csv" }), "settings.csv")}
          >
            CSV
          </button>
        )}
      </div>
      {settings.length === 0 ? (
        <p class="faint">None: these runs were told the same.</p>
      ) : (
        <div class="wide" tabIndex={0} role="region" aria-label="Table of settings">
          <table class="table compare-settings">
            <thead>
              <tr>
                <th scope="col">setting</th>
                {runs.map(({ key }) => (
                  <th key={key} scope="col">
                    <RunName name={key} colour={colours.get(key)} />
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {settings.map(({ path, values }) => (
                <tr key={path}>
                  <th scope="row" class="mono">
                    <Text value={path} />
                  </th>
                  {runs.map(({ key }, i) => (
                    <td key={key} class="mono">
                      <Value value={values[i]} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Value({ value }: { value: unknown }) {
  const text = valueText(value);
  if (value === null || value === undefined) return <span class="faint">not set</span>;
  if (text.length <= longest) return <Text value={text} />;
  return (
    <details>
      <summary>
        <Text value={`${text.slice(0, longest / 2)}…`} />
      </summary>
      <Text value={text} />
    </details>
  );
}
