/** What a model thinks before it replies: free, up to the first `</think>`. */
import { type Edge, type Nfa, type Place, placeFlags } from "./nfa.ts";

const mark = Buffer.from("</think>");
const [first] = mark as unknown as [number];

/** Deterministic by itself: once it is over, nothing of it goes on beside the reply. */
export function thoughts(nfa: Nfa, reply: Place): Place {
  const places = Array.from(mark, () => nfa.place(placeFlags.free));
  for (const [i, byte] of mark.entries()) {
    // The mark's first character stands nowhere else in it, so that what breaks off may only begin again.
    const ways = new Map([
      [first, places[1]!],
      [byte, places[i + 1] ?? endOf(nfa, reply)],
    ]);
    nfa.edges[places[i]!]!.push(...edges(ways, places[0]!));
  }
  return places[0]!;
}

/** The lines that models leave behind it. */
function endOf(nfa: Nfa, reply: Place): Place {
  const line = nfa.either(nfa.byte(0x0a, 0x0a, reply), reply);
  return nfa.either(nfa.byte(0x0a, 0x0a, line), reply);
}

function edges(ways: ReadonlyMap<number, Place>, others: Place): Edge[] {
  return Array.from({ length: 256 }, (_, byte) => ({ low: byte, high: byte, to: ways.get(byte) ?? others }));
}
