/** A setting as text: words as they are, the rest as JSON. */
export function valueText(value: unknown): string {
  if (value === null || value === undefined) return "–";
  return typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
}
