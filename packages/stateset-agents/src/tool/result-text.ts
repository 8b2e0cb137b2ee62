/** What a tool returned, as text for the model. */

/** Characters at most, before anything is cut: more is no answer but a mistake. */
export const mostCharacters = 1 << 20;

export type ResultText = { ok: true; text: string } | { ok: false; kind: "failed" | "too_large"; problem: string };

export function resultText(value: unknown): ResultText {
  let text: string | undefined;
  try {
    text = typeof value === "string" ? value : value === undefined ? "(no result)" : JSON.stringify(value, plain);
  } catch (error) {
    const circular = error instanceof TypeError && /circular/i.test(error.message);
    const problem = circular ? "its result holds itself" : `its result cannot be written: ${String(error)}`;
    return { ok: false, kind: "failed", problem };
  }
  const kind = text === "{}" ? classOf(value) : undefined;
  if (kind !== undefined) {
    return { ok: false, kind: "failed", problem: `its result is a ${kind}, of which JSON shows nothing` };
  }
  if (text === undefined) return { ok: false, kind: "failed", problem: `its result is a ${typeof value}` };
  if (text.length > mostCharacters) {
    const problem = `its result has ${text.length} characters, and ${mostCharacters} are the limit`;
    return { ok: false, kind: "too_large", problem };
  }
  return { ok: true, text };
}

/** Of what is no plain object: a Response that nobody read, a generator that nobody ran. */
function classOf(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return undefined;
  const tag = Object.prototype.toString.call(value).slice("[object ".length, -1);
  return tag === "Object" ? (value.constructor?.name ?? "class") : tag;
}

/** JSON has no form for these. */
function plain(_: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (value instanceof Error) return { error: value.message };
  if (value instanceof Map || value instanceof Set) return [...value];
  return value;
}

/** The beginning of a text that takes at most `limit` tokens, with a note of what is left out. */
export function cutToTokens(text: string, limit: number, count: (text: string) => number): string {
  // A token is a character or more.
  if (text.length <= limit || count(text) <= limit) return text;
  const note = (kept: number) => `\n[cut: ${text.length - kept} of ${text.length} characters are left out]`;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (count(text.slice(0, middle) + note(middle)) <= limit) low = middle;
    else high = middle - 1;
  }
  // Not between the two halves of a character.
  const end = /[\ud800-\udbff]/.test(text[low - 1] ?? "") ? low - 1 : low;
  return text.slice(0, end) + note(end);
}
