/** Whether two JSON values say the same: the order of keys does not matter, and a key without a value is no key. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (!isObject(a) || !isObject(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  return holds(a, b) && holds(b, a);
}

/** Whether the second says all that the first does. Lists are objects whose keys are numbers. */
function holds(a: JsonObject, b: JsonObject): boolean {
  return Object.keys(a).every((key) => sameJson(a[key], Object.hasOwn(b, key) ? b[key] : undefined));
}

type JsonObject = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null;
}
