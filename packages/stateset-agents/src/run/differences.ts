/**
 * A nested object as dotted paths: `{ kl: { coefficient: 0 } }` is `{ "kl.coefficient": 0 }`. Lists of objects are taken apart by place,
 * other lists count as values.
 */
function flatten(value: Readonly<Record<string, unknown>>, prefix = ""): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const [key, inner] of Object.entries(value)) {
    const path = prefix === "" ? key : `${prefix}.${key}`;
    if (isRecord(inner) || (Array.isArray(inner) && inner.length > 0 && inner.every(isRecord))) {
      Object.assign(result, flatten({ ...inner }, path));
    } else if (inner !== undefined) result[path] = inner;
  }
  return result;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export interface Difference {
  path: string;
  /** Undefined: not set there. */
  a: unknown;
  b: unknown;
}

/** Where two configurations differ, by path; the order of keys is none of it. */
export function differences(a: Readonly<Record<string, unknown>>, b: Readonly<Record<string, unknown>>): Difference[] {
  const left = flatten(a);
  const right = flatten(b);
  return [...new Set([...Object.keys(left), ...Object.keys(right)])]
    .filter((path) => JSON.stringify(left[path]) !== JSON.stringify(right[path]))
    .sort()
    .map((path) => ({ path, a: left[path], b: right[path] }));
}
