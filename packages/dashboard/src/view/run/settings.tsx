/** Settings that are not the defaults, and all of them as a tree that can be searched. */
import { useState } from "preact/hooks";
import type { ConfigData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { askJson } from "../../data/ask.ts";
import { useResource } from "../../data/resource.ts";
import { Loading } from "../parts/loading.tsx";
import { Problem, Problems } from "../parts/problem.tsx";
import { Text } from "../parts/text.tsx";
import { pruned, shortJson } from "./prune.ts";

export function Settings({ run }: { run: string }) {
  const path = `runs/${encodeURIComponent(run)}/config`;
  const { data, error, reload } = useResource(path, (signal) => askJson<ConfigData>(path, {}, signal));
  const [search, setSearch] = useState("");
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading what="Reading settings" />;
  const shown = data.config && pruned(data.config, search.trim().toLowerCase());
  return (
    <div class="stack">
      <Problems list={data.problems} />
      {data.changed.length === 0 && data.config && <p class="faint">All settings are the defaults.</p>}
      {data.changed.length > 0 && (
        <table class="table settings">
          <thead>
            <tr>
              <th scope="col">Setting</th>
              <th scope="col">Here</th>
              <th scope="col">Default</th>
            </tr>
          </thead>
          <tbody>
            {data.changed.map((one) => (
              <tr key={one.path}>
                <th scope="row" class="mono">
                  <Text value={one.path} />
                </th>
                <td class="mono">
                  <Text value={shortJson(one.value)} />
                </td>
                <td class="mono faint">
                  <Text value={shortJson(one.default)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {data.config && (
        <details>
          <summary>Everything in config.json</summary>
          <div class="stack config">
            <input
              class="input"
              type="search"
              aria-label="Find a setting"
              placeholder="Find a setting or a value"
              value={search}
              onInput={(event) => setSearch(event.currentTarget.value)}
            />
            {shown === undefined ? (
              <p class="faint">Nothing of it is called so.</p>
            ) : (
              <Branch value={shown} open={search.trim() !== ""} />
            )}
          </div>
        </details>
      )}
    </div>
  );
}

function Branch({ value, open }: { value: unknown; open: boolean }) {
  return (
    <ul class="config-tree mono">
      {Object.entries(value as object).map(([name, inner]) => (
        <li key={name}>
          {typeof inner === "object" && inner !== null && Object.keys(inner).length > 0 ? (
            <details open={open || Object.keys(inner).length <= 6}>
              <summary>
                <Text value={name} />
              </summary>
              <Branch value={inner} open={open} />
            </details>
          ) : (
            <>
              <span class="faint">
                <Text value={name} />
              </span>{" "}
              <Text value={shortJson(inner)} />
            </>
          )}
        </li>
      ))}
    </ul>
  );
}
