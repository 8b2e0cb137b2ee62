/** A value as JSON has it, opened as far as one wants; what is closed is not drawn. */
import { useState } from "preact/hooks";
import { LongText } from "../parts/long-text.tsx";
import { plural } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";

const shownAtOnce = 100;

export function JsonTree({ value, name, depth = 0 }: { value: unknown; name?: string; depth?: number }) {
  const label =
    name === undefined ? null : (
      <span class="json-name">
        <Text value={name} />:{" "}
      </span>
    );
  if (typeof value !== "object" || value === null) {
    return (
      <div class={`json-leaf json-${value === null ? "null" : typeof value}`}>
        {label}
        {typeof value === "string" ? <LongText value={depth === 0 ? value : JSON.stringify(value)} /> : String(value)}
      </div>
    );
  }
  return <Branch value={value} label={label} depth={depth} />;
}

function Branch({ value, label, depth }: { value: object; label: preact.ComponentChild; depth: number }) {
  const entries = Object.entries(value);
  const [open, setOpen] = useState(depth < 2 && entries.length <= 20);
  const [count, setCount] = useState(shownAtOnce);
  const isList = Array.isArray(value);
  if (entries.length === 0) {
    return (
      <div class="json-leaf">
        {label}
        {isList ? "[]" : "{}"}
      </div>
    );
  }
  return (
    <details class="json-branch" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {label}
        <span class="faint">{plural(entries.length, isList ? "entry" : "field", isList ? "entries" : "fields")}</span>
      </summary>
      {open && (
        <div class="json-inner">
          {entries.slice(0, count).map(([key, own]) => (
            <JsonTree key={key} name={key} value={own} depth={depth + 1} />
          ))}
          {entries.length > count && (
            <button type="button" class="button small" onClick={() => setCount(count * 10)}>
              {plural(entries.length - count, "more")}
            </button>
          )}
        </div>
      )}
    </details>
  );
}
