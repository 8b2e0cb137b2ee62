/** JSON text that is the same for the same value: keys in the order of their names, and what JSON has no form for as text. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, inOrder);
}

function inOrder(_: string, value: unknown): unknown {
  if (typeof value === "bigint" || typeof value === "function") return `${typeof value} ${String(value)}`;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
