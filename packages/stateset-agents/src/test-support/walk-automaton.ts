/** Reading and writing with a byte automaton, a byte at a time: what the engine does with tokens. */
import type { ToolDefinition } from "../conversation/tool-definition.ts";
import type { ByteAutomaton } from "../policy/policy.ts";
import { determinise } from "../tool/constrain/automaton.ts";
import { compileConstraint } from "../tool/constrain/compile-constraint.ts";
import { type ConstrainLimits, readLimits } from "../tool/constrain/limits.ts";
import { Nfa, placeFlags } from "../tool/constrain/nfa.ts";
import { json, SchemaReader } from "../tool/constrain/schema-grammar.ts";
import type { CallFormat } from "../tool/format/call-format.ts";

const { end } = placeFlags;

/** The state that a byte leads to; undefined: it cannot be written there. */
export function stepOf({ starts, ranges, targets }: ByteAutomaton, state: number, byte: number): number | undefined {
  for (let at = starts[state]!; at < starts[state + 1]!; at++) {
    if (byte <= ranges[2 * at + 1]!) return byte >= ranges[2 * at]! ? targets[at]! : undefined;
  }
  return undefined;
}

/** The state after a text; undefined: it cannot be written. */
export function stateAfter(automaton: ByteAutomaton, text: string | Uint8Array, from = 0): number | undefined {
  let state: number | undefined = from;
  for (const byte of typeof text === "string" ? Buffer.from(text, "utf8") : text) {
    state = stepOf(automaton, state, byte);
    if (state === undefined) return undefined;
  }
  return state;
}

/** Whether a text may be a whole reply. */
export function accepts(automaton: ByteAutomaton, text: string): boolean {
  const state = stateAfter(automaton, text);
  return state !== undefined && (automaton.flags[state]! & end) !== 0;
}

/** Bytes drawn one by one until it may end; from `state` on. */
export function randomText(automaton: ByteAutomaton, next: () => number, from = 0): string {
  const bytes: number[] = [];
  let state = from;
  for (;;) {
    const first = automaton.starts[state]!;
    const count = automaton.starts[state + 1]! - first;
    if (count === 0 || (automaton.flags[state]! & end && next() < 0.5)) break;
    const at = first + Math.floor(next() * count);
    const [low, high] = [automaton.ranges[2 * at]!, automaton.ranges[2 * at + 1]!];
    bytes.push(low + Math.floor(next() * (high - low + 1)));
    state = automaton.targets[at]!;
    if (bytes.length > 100_000) throw new Error(`No end in sight: ${Buffer.from(bytes.slice(0, 200))}`);
  }
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
}

/** The values of a schema. */
export function schemaAutomaton(
  schema: Readonly<Record<string, unknown>>,
  limits: Partial<ConstrainLimits> = {},
): ByteAutomaton {
  const nfa = new Nfa();
  const start = new SchemaReader(schema, readLimits(limits), json, "the schema").whole()(nfa, nfa.place(end));
  return determinise(nfa, start);
}

/** Replies that are calls from their first byte on, and end after them: for models that would never open one by themselves. */
export function callsOnly(
  format: CallFormat,
  tools: readonly ToolDefinition[],
  limits: Partial<ConstrainLimits> = {},
): ByteAutomaton {
  return compileConstraint({ tools, format, limits: readLimits(limits), reasoning: false, choice: "required" });
}
