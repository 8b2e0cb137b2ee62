/** Reading with an automaton, a byte at a time: what the engine does, for whoever wants to know what a text comes to. */
import type { ByteAutomaton } from "../policy/policy.ts";

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
