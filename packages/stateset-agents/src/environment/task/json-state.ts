/** The state of a task: plain JSON that nobody can change, so that hundreds of episodes share what they have in common. */
import { createHash } from "node:crypto";
import { canonicalJson } from "../../canonical-json.ts";

const ours = new WeakSet<object>();
const hashes = new WeakMap<object, string>();

/** A frozen copy; parts that are frozen copies already stay what they are. Throws, naming the place, where it is not plain JSON. */
export function frozenJson<T>(value: T, where: string): T {
  return copy(value, where, []) as T;
}

function copy(value: unknown, where: string, above: readonly object[]): unknown {
  const fail = (what: string): never => {
    throw new TypeError(`${where} is ${what}, which JSON has no form for`);
  };
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isFinite(value) ? value : fail(String(value));
  if (typeof value !== "object") return fail(value === undefined ? "undefined" : `a ${typeof value}`);
  if (ours.has(value)) return value;
  if (above.includes(value)) return fail("an object that holds itself");
  if (above.length > 200) return fail("nested more than 200 deep");
  const next = [...above, value];
  let made: object;
  if (Array.isArray(value)) made = Array.from(value, (one, i) => copy(one, `${where}[${i}]`, next));
  else {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null) fail(`a ${value.constructor?.name ?? "class"}`);
    const entries = Object.entries(value).filter(([, one]) => one !== undefined);
    made = Object.fromEntries(entries.map(([key, one]) => [key, copy(one, `${where}.${key}`, next)]));
  }
  ours.add(Object.freeze(made));
  return made;
}

/** The same for the same state in every process; the order of keys does not matter. */
export function stateHash(state: unknown): string {
  if (typeof state !== "object" || state === null || !ours.has(state)) return hashOf(state);
  let hash = hashes.get(state);
  if (hash === undefined) {
    hash = hashOf(state);
    hashes.set(state, hash);
  }
  return hash;
}

/** Of JSON: no text that an agent writes can end a value and begin another, and so pass for another state. */
function hashOf(state: unknown): string {
  return createHash("sha256").update(canonicalJson(state)).digest("hex").slice(0, 16);
}
