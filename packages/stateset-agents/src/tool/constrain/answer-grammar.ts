/** A reply that is one JSON value. */
import type { CallFormat } from "../format/call-format.ts";
import { callGrammar } from "../format/choose-format.ts";
import type { JsonSchema } from "../schema/compile-schema.ts";
import { anyObject } from "./any-json.ts";
import { NothingFits } from "./call-grammar.ts";
import type { ConstrainLimits } from "./limits.ts";
import { type Nfa, type Place, placeFlags } from "./nfa.ts";
import { json, SchemaReader } from "./schema-grammar.ts";
import { unsupported } from "./unsupported.ts";

const { end, aside } = placeFlags;

/** `beside`: how calls are written that the reply may be instead. What would be read as one is not written in the answer. */
export function answerGrammar(
  nfa: Nfa,
  schema: JsonSchema | true,
  limits: ConstrainLimits,
  beside: CallFormat | undefined,
): Place {
  const name = "the answer's schema";
  const whole = schema === true ? anyObject(limits) : new SchemaReader(schema, limits, json, name).whole();
  const over = nfa.place(end);
  const value = nfa.within(aside, () => whole(nfa, over));
  if (value === nfa.dead) throw new NothingFits();
  if (!beside) return value;
  // Of all objects those are left out; of a schema it may be all.
  if (schema !== true) requireTold(nfa, value, beside, name);
  const watcher = nfa.place(aside);
  nfa.edges[watcher]!.push({ low: 0, high: 255, to: watcher });
  const around = { words: over, end: over, several: true, opening: "never" } as const;
  const { start = nfa.dead, anywhere = nfa.dead } = callGrammar(beside)(nfa, [], around);
  nfa.beside[watcher]!.push(anywhere);
  return nfa.either(value, watcher, start);
}

/** An object whose first key is that of a call is read as one, in formats that know calls by nothing else. */
function requireTold(nfa: Nfa, value: Place, format: CallFormat, name: string): void {
  for (const key of ["name", "arguments", "parameters"]) {
    const begun = `{${JSON.stringify(key)}:`;
    if (format.parse(begun).calls.length === 0 || !canBegin(nfa, value, begun)) continue;
    throw unsupported(
      `an answer that begins with "${key}" beside tools: in the format ${format.name} that is a call (put another property first)`,
      name,
    );
  }
}

function canBegin(nfa: Nfa, from: Place, text: string): boolean {
  let places = new Set([from]);
  for (const byte of [...Buffer.from(text), undefined]) {
    for (const place of places) for (const other of nfa.beside[place]!) places.add(other);
    if (byte === undefined) break;
    const next = [...places].flatMap((place) =>
      nfa.edges[place]!.filter(({ low, high }) => low <= byte && byte <= high),
    );
    places = new Set(next.map(({ to }) => to));
  }
  return places.size > 0;
}
