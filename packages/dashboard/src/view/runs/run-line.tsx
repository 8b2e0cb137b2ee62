/** One run in the table, with the form below it while its notes are edited. */
import type { RunRow } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { NotesForm } from "../parts/notes-form.tsx";
import { Text } from "../parts/text.tsx";
import { plain } from "../parts/visible.ts";
import type { Column } from "./columns.tsx";

interface Props {
  columns: readonly Column[];
  row: RunRow;
  index: number;
  selected: boolean;
  readOnly: boolean;
  editing: boolean;
  onSelect(range: boolean): void;
  onEdit(open: boolean): void;
  onNotes(row: Partial<RunRow> & { key: string }): void;
}

export function RunLine({ columns, row, index, selected, readOnly, editing, onSelect, onEdit, onNotes }: Props) {
  return (
    <>
      <div
        class={`run-line ${row.archived ? "archived" : ""}`}
        role="row"
        aria-rowindex={index + 2}
        aria-selected={selected}
        data-testid="run-row"
      >
        <div role="cell" class="cell-select">
          <input
            type="checkbox"
            aria-label={`Select ${plain(row.id)}`}
            checked={selected}
            onClick={(event) => onSelect(event.shiftKey)}
          />
        </div>
        {columns.map(({ id, right, cell }) => (
          <div key={id} role="cell" class={`cell-${id} ${right ? "right" : ""}`}>
            {cell(row)}
          </div>
        ))}
        <div role="cell" class="cell-tags">
          {row.tags.map((tag) => (
            <span key={tag} class="chip cut">
              <Text value={tag} />
            </span>
          ))}
          {row.archived && <span class="chip">archived</span>}
          {row.note && (
            <span class="faint cut note" title={plain(row.note)}>
              <Text value={row.note} />
            </span>
          )}
          {!readOnly && (
            <button
              type="button"
              class="button small quiet edit"
              aria-expanded={editing}
              aria-label={`Tags and note of ${plain(row.id)}`}
              onClick={() => onEdit(!editing)}
            >
              ✎
            </button>
          )}
        </div>
        {row.reason && (
          <div role="cell" class="cell-reason faint cut" title={plain(row.reason)}>
            <Text value={row.reason} />
          </div>
        )}
      </div>
      {editing && (
        <NotesForm
          notes={{ run: row.key, tags: row.tags, note: row.note, archived: row.archived }}
          onSaved={({ tags, note, archived }) => onNotes({ key: row.key, tags, note, archived })}
          onClose={() => onEdit(false)}
        />
      )}
    </>
  );
}
