type Facts = Readonly<Record<string, unknown>>;

function isRecord(value: unknown): value is Facts {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What can be looked into: an object, or a list of objects, which is taken apart by place. Other lists count as values. */
function inside(value: unknown): Facts | undefined {
  if (isRecord(value)) return value;
  return Array.isArray(value) && value.length > 0 && value.every(isRecord) ? { ...value } : undefined;
}

export interface Difference {
  /** Dotted: `kl.coefficient`. */
  path: string;
  /** Undefined: not set there. */
  a: unknown;
  b: unknown;
}

/** Where two configurations differ, by path; the order of keys is none of it. */
export function differences(a: Facts, b: Facts): Difference[] {
  return walk(a, b, "").sort((one, other) => (one.path < other.path ? -1 : 1));
}

function walk(a: Facts, b: Facts, prefix: string): Difference[] {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((key) => {
    const path = prefix + key;
    const [left, right] = [a[key], b[key]];
    const [leftIn, rightIn] = [inside(left), inside(right)];
    // A word on one side and an object on the other is one change of the whole.
    const whole = (leftIn === undefined && left !== undefined) || (rightIn === undefined && right !== undefined);
    if (!whole) return walk(leftIn ?? {}, rightIn ?? {}, `${path}.`);
    return JSON.stringify(left) === JSON.stringify(right) ? [] : [{ path, a: left, b: right }];
  });
}
