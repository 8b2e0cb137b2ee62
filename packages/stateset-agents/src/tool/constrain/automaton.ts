/** From places that one is in at once to the table that the engine walks: one state for every set of places. */
import type { ByteAutomaton } from "../../policy/policy.ts";
import { type Edge, type Nfa, type Place, placeFlags, TooLarge } from "./nfa.ts";

const { free, end, marker, commit, never, aside } = placeFlags;

const mostStates = 100_000;

interface State {
  places: readonly Place[];
  flags: number;
  /** In order of their bytes. */
  edges: { low: number; high: number; to: number }[];
}

export function determinise(nfa: Nfa, start: Place): ByteAutomaton {
  const states: State[] = [];
  const known = new Map<string, number>();
  /** The state of all places that one is in when in these; undefined: there is none. */
  const stateOf = (places: readonly Place[]): number | undefined => {
    const all = closure(nfa, places);
    if (all.length === 0) return undefined;
    const key = all.join();
    const there = known.get(key);
    if (there !== undefined) return there;
    if (states.length >= mostStates) throw new TooLarge(`it needs more than ${mostStates} states`);
    const flags = all.reduce((sum, place) => sum | nfa.flags[place]!, 0);
    known.set(key, states.length);
    return states.push({ places: all, flags: flags & (free | end | marker), edges: [] }) - 1;
  };
  stateOf([start]);
  for (let at = 0; at < states.length; at++) {
    const state = states[at]!;
    const memo = new Map<string, number | undefined>();
    for (const { low, high, targets } of split(state.places.flatMap((place) => nfa.edges[place]!))) {
      const key = targets.join();
      if (!memo.has(key)) memo.set(key, stateOf(targets));
      const to = memo.get(key);
      if (to === undefined) continue;
      const last = state.edges.at(-1);
      if (last?.to === to && last.high === low - 1) last.high = high;
      else state.edges.push({ low, high, to });
    }
    // What it stood for is in its edges now.
    state.places = [];
  }
  return tableOf(states, leadingToEnd(states));
}

/** All places that one is in, those that lead nowhere by themselves left out; none where such words must not be written. */
function closure(nfa: Nfa, places: readonly Place[]): Place[] {
  const seen = new Set<Place>();
  const open = [...places];
  let flags = 0;
  const found: Place[] = [];
  while (open.length > 0) {
    const place = open.pop()!;
    if (seen.has(place)) continue;
    seen.add(place);
    flags |= nfa.flags[place]!;
    if (nfa.edges[place]!.length > 0 || nfa.flags[place] !== 0) found.push(place);
    open.push(...nfa.beside[place]!);
  }
  if (flags & commit)
    return found.filter((place) => (nfa.flags[place]! & (free | never | aside)) === 0).sort(ascending);
  return flags & never ? [] : found.sort(ascending);
}

const ascending = (a: number, b: number) => a - b;

/** Ranges of bytes that lead to the same places each, in order. */
function split(edges: readonly Edge[]): { low: number; high: number; targets: Place[] }[] {
  if (edges.length === 1) return [{ low: edges[0]!.low, high: edges[0]!.high, targets: [edges[0]!.to] }];
  const bounds = [...new Set(edges.flatMap(({ low, high }) => [low, high + 1]))].sort(ascending);
  const ranges: { low: number; high: number; targets: Place[] }[] = [];
  for (const [i, low] of bounds.slice(0, -1).entries()) {
    const targets = edges.filter((edge) => edge.low <= low && low <= edge.high).map(({ to }) => to);
    if (targets.length > 0)
      ranges.push({ low, high: bounds[i + 1]! - 1, targets: [...new Set(targets)].sort(ascending) });
  }
  return ranges;
}

/** Which states a reply can still end from. */
function leadingToEnd(states: readonly State[]): Uint8Array {
  const before: number[][] = states.map(() => []);
  for (const [from, { edges }] of states.entries()) for (const { to } of edges) before[to]!.push(from);
  const leads = new Uint8Array(states.length);
  const open = [...states.keys()].filter((at) => states[at]!.flags & end);
  while (open.length > 0) {
    const at = open.pop()!;
    if (leads[at]) continue;
    leads[at] = 1;
    open.push(...before[at]!);
  }
  return leads;
}

function tableOf(states: readonly State[], leads: Uint8Array): ByteAutomaton {
  const numbers = new Int32Array(states.length).fill(-1);
  let count = 0;
  for (const at of states.keys()) if (leads[at]) numbers[at] = count++;
  const kept = states.filter((_, at) => leads[at]);
  const edges = kept.map((state) => state.edges.filter(({ to }) => leads[to]));
  const starts = new Int32Array(count + 1);
  for (const [i, own] of edges.entries()) starts[i + 1] = starts[i]! + own.length;
  const flat = edges.flat();
  return {
    starts,
    ranges: Uint8Array.from(flat.flatMap(({ low, high }) => [low, high])),
    targets: Int32Array.from(flat, ({ to }) => numbers[to]!),
    flags: Uint8Array.from(kept, ({ flags }) => flags),
  };
}
