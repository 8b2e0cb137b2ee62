/** Tags, a note, the archive: what people say of a run. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { NotesData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { ApiError, send } from "../../data/ask.ts";
import { tagsOf } from "./tags.ts";
import { Text } from "./text.tsx";

interface Props {
  notes: Omit<NotesData, "changedAt">;
  onSaved(notes: NotesData): void;
  onClose(): void;
}

export function NotesForm({ notes, onSaved, onClose }: Props) {
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const first = useRef<HTMLInputElement>(null);
  // Sent twice, as by a second try after no answer, it is done once.
  const once = useRef(crypto.randomUUID());
  useEffect(() => first.current?.focus(), []);
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    try {
      const stored = await send<NotesData>("notes", {
        run: notes.run,
        tags: tagsOf(String(form.get("tags"))),
        note: String(form.get("note")),
        archived: form.get("archived") === "on",
        idempotencyKey: once.current,
      });
      onSaved(stored);
      onClose();
    } catch (problem) {
      // Another text is another request.
      if (problem instanceof ApiError && problem.status !== 0) once.current = crypto.randomUUID();
      setError(problem instanceof ApiError ? problem : new ApiError(String(problem), 0, null));
      setBusy(false);
    }
  };
  return (
    <form
      class="notes-form"
      aria-label="Tags and note"
      onSubmit={save}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        onClose();
      }}
    >
      <label class="field">
        Tags
        {/* Default values: what happens to the run meanwhile does not take back what was typed. */}
        <input
          ref={first}
          name="tags"
          class="input"
          defaultValue={notes.tags.join(", ")}
          placeholder="baseline, long"
        />
      </label>
      <label class="field grow">
        Note
        <input name="note" class="input grow" defaultValue={notes.note} maxLength={10_000} />
      </label>
      <label class="field">
        <input name="archived" type="checkbox" defaultChecked={notes.archived} />
        Archived
      </label>
      <button type="submit" class="button primary" disabled={busy}>
        Save
      </button>
      <button type="button" class="button" onClick={onClose}>
        Cancel
      </button>
      {error && (
        <p class="wrong" role="alert">
          <Text value={error.param ? `${error.param}: ${error.message}` : error.message} />
        </p>
      )}
    </form>
  );
}
