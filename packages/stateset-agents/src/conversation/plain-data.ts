/** What JSON can hold of somebody's data, and comes back from it as it was; undefined when nothing is left. */
export function plainData(data: Readonly<Record<string, unknown>>): Record<string, unknown> | undefined {
  const plain = plainOf(data, new Set()) as Record<string, unknown> | undefined;
  return plain && Object.keys(plain).length > 0 ? plain : undefined;
}

/** `above` are the objects it is part of: data that runs in a circle is none. */
function plainOf(value: unknown, above: Set<object>): unknown {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isFinite(value) ? value : undefined;
  if (typeof value !== "object" || above.has(value)) return undefined;
  above.add(value);
  try {
    if (Array.isArray(value)) {
      const list = value.map((one) => plainOf(one, above));
      return list.includes(undefined) ? undefined : list;
    }
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null) return undefined;
    const entries = Object.entries(value).map(([key, one]) => [key, plainOf(one, above)] as const);
    return Object.fromEntries(entries.filter(([, one]) => one !== undefined));
  } finally {
    above.delete(value);
  }
}
