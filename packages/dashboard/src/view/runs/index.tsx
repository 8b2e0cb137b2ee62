/** All runs: looked through, sorted, grouped, chosen for comparison. */
import "./runs.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "../../data/keys.ts";
import { joinNames, splitNames } from "../../data/list.ts";
import { go, link, place, setQuery } from "../../data/url.ts";
import { windowWidth } from "../../data/window-width.ts";
import { Loading } from "../parts/loading.tsx";
import { plural } from "../parts/number.ts";
import { Page } from "../parts/page.tsx";
import { Problem, Problems } from "../parts/problem.tsx";
import { VirtualList, type VirtualListHandle } from "../parts/virtual-list.tsx";
import { plain } from "../parts/visible.ts";
import { ColumnPicker } from "./column-picker.tsx";
import { columns as allColumns } from "./columns.tsx";
import { columnsFor, gridOf } from "./columns-for.ts";
import { Empty } from "./empty.tsx";
import { FilterBox } from "./filter-box.tsx";
import { GroupHeading } from "./group-heading.tsx";
import { lines } from "./grouped.ts";
import { RunLine } from "./run-line.tsx";
import { TableHead } from "./table-head.tsx";
import { useRuns } from "./use-runs.ts";

export function RunsView() {
  const { filter = "", sort, group, archived, selected: chosen, closed: shut, run: current } = place.value.query;
  const wanted = place.value.query.columns;
  const columns = columnsFor(allColumns, wanted === undefined ? undefined : splitNames(wanted), windowWidth.value);
  const runs = useRuns({ filter: filter || undefined, sort, group, archived }, group !== undefined, current);
  const { data, error } = runs;
  const list = useRef<VirtualListHandle>(null);
  const filterInput = useRef<HTMLInputElement>(null);
  const [editing, setEditing] = useState<string>();
  const selected = new Set(splitNames(chosen));
  const closed = new Set(splitNames(shut));
  const all = lines(data?.rows ?? [], group !== undefined, closed);
  const keys = all.map((line) => (line.kind === "run" ? line.row.key : undefined));
  const readOnly = data?.readOnly ?? true;

  // Coming back, one sees the run that was gone to.
  const found = data !== undefined;
  useEffect(() => {
    const at = current === undefined ? -1 : keys.indexOf(current);
    if (at > 0) list.current?.scrollTo(at, "center");
  }, [found]);

  const select = (key: string, range = false) => {
    const last = [...selected].at(-1);
    const [a, b] = [keys.indexOf(last), keys.indexOf(key)].sort((one, other) => one - other);
    const now = new Set(selected);
    if (range && last !== undefined && a! >= 0) for (const one of keys.slice(a, b! + 1)) one && now.add(one);
    else if (!now.delete(key)) now.add(key);
    setQuery({ selected: joinNames([...now]) || undefined });
  };
  const move = (by: number) => {
    const from = current === undefined ? -1 : keys.indexOf(current);
    let to = from < 0 ? (by > 0 ? 0 : keys.length - 1) : from + by;
    while (keys[to] === undefined && to >= 0 && to < keys.length) to += by;
    const key = keys[to];
    if (key === undefined) return;
    setQuery({ run: key });
    list.current?.scrollTo(to);
    // Once the row is in the page.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => document.querySelector<HTMLElement>(`[data-run="${CSS.escape(key)}"]`)?.focus()),
    );
  };
  const compare = () => selected.size > 0 && go(["compare"], { runs: joinNames([...selected]) });
  useKeys([
    { key: "j", does: "Next run", run: () => move(1) },
    { key: "k", does: "Run before", run: () => move(-1) },
    { key: "Enter", does: "Open the run", run: () => current && go(["run", current]) },
    { key: "x", does: "Choose the run for comparison", run: () => current && select(current) },
    { key: "c", does: "Compare the chosen runs", run: compare },
    { key: "e", does: "Tags and note of the run", run: () => !readOnly && setEditing(current) },
    { key: "/", does: "Filter", run: () => filterInput.current?.focus() },
    { key: "Escape", does: "Choose none", run: () => setQuery({ selected: undefined }) },
  ]);

  return (
    <Page
      title="Runs"
      actions={
        <a class="button quiet" href={link(["live"])}>
          Live
        </a>
      }
    >
      <div class="runs-bar">
        <FilterBox filter={filter} error={error} fields={data?.fields ?? []} input={filterInput} />
        <label class="field">
          Group by
          <select
            class="select"
            value={group ?? ""}
            onChange={(event) => setQuery({ group: event.currentTarget.value || undefined, closed: undefined })}
          >
            <option value="">nothing</option>
            {[...new Set([...(data?.fields ?? []), ...(group ? [group] : [])])].map((field) => (
              <option key={field} value={field}>
                {plain(field)}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          <input
            type="checkbox"
            checked={archived === "all"}
            onChange={(event) => setQuery({ archived: event.currentTarget.checked ? "all" : undefined })}
          />
          Archived too
        </label>
        <ColumnPicker shown={columns} />
        <span class="faint" role="status">
          {data && plural(data.total, "run")}
        </span>
        <span class="runs-chosen">
          {selected.size > 0 && (
            <button type="button" class="button quiet" onClick={() => setQuery({ selected: undefined })}>
              {selected.size} chosen ✕
            </button>
          )}
          <button type="button" class="button primary" disabled={selected.size < 2} onClick={compare}>
            Compare
          </button>
        </span>
      </div>
      {error && error.param !== "filter" && <Problem error={error} retry={runs.reload} />}
      {data?.folders
        .filter(({ exists }) => !exists)
        .map(({ path }) => (
          <p key={path} class="problems">
            The folder <code>{path}</code> is not there. Runs appear here as soon as it is.
          </p>
        ))}
      {data && <Problems list={data.problems} />}
      {!data && !error && <Loading what="Reading runs" />}
      {data && data.rows.length === 0 && <Empty data={data} filtered={filter !== ""} />}
      {data && data.rows.length > 0 && (
        <div
          class="runs"
          style={{ "--columns": gridOf(columns) }}
          role="table"
          aria-label="Runs"
          aria-rowcount={data.total + 1}
          aria-busy={runs.loading}
        >
          <TableHead columns={columns} sort={sort} fields={data.fields} />
          <VirtualList
            handle={list}
            scroll="page"
            role="rowgroup"
            count={all.length}
            estimate={() => 36}
            keyOf={(i) => keys[i] ?? `group ${(all[i] as { value: string }).value}`}
            onEnd={runs.more}
            render={(i) => {
              const line = all[i];
              if (!line) return null;
              if (line.kind === "heading") return <GroupHeading field={group!} line={line} closed={closed} />;
              return (
                <RunLine
                  columns={columns}
                  row={line.row}
                  index={i}
                  selected={selected.has(line.row.key)}
                  readOnly={readOnly}
                  editing={editing === line.row.key}
                  onSelect={(range) => select(line.row.key, range)}
                  onEdit={(open) => setEditing(open ? line.row.key : undefined)}
                  onNotes={(row) => (row.archived !== line.row.archived ? runs.reload() : runs.put(row))}
                />
              );
            }}
          />
        </div>
      )}
    </Page>
  );
}
