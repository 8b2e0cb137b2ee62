/** Of a tree the branches in which a name or a value has the words; all of it without words, undefined where nothing has them. */
export function pruned(value: unknown, words: string): unknown {
  if (words === "") return value;
  if (typeof value !== "object" || value === null) {
    return String(value).toLowerCase().includes(words) ? value : undefined;
  }
  const kept = Object.entries(value).flatMap(([name, inner]): [string, unknown][] => {
    if (name.toLowerCase().includes(words)) return [[name, inner]];
    const left = pruned(inner, words);
    return left === undefined ? [] : [[name, left]];
  });
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

/** A value in one line; strings without quotes. */
export function shortJson(value: unknown): string {
  if (value === undefined) return "–";
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
  return text.length > 400 ? `${text.slice(0, 400)}…` : text;
}
