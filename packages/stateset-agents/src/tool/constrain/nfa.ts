/**
 * An automaton over bytes that may be in several places at once, built from its end backwards: a piece of grammar is told where to go on
 * and says where it begins.
 */

/** What a place says of the reply, beside the bytes that lead on. The first three are the engine's. */
export const placeFlags = {
  /** Words: control tokens may be drawn. */
  free: 1,
  /** The reply may end. */
  end: 2,
  /** A control token may be drawn if its spelling fits. */
  marker: 4,
  /** A call has begun: what has been read is no longer words. */
  commit: 8,
  /** Words that would be read as a call that is none: they are not written. */
  never: 16,
  /** Given up once a call has begun, though it is no words. */
  aside: 32,
} as const;

export type Place = number;

export interface Edge {
  /** First and last byte. */
  low: number;
  high: number;
  to: Place;
}

/** Where a piece of grammar begins that goes on at `to`. */
export type Grammar = (nfa: Nfa, to: Place) => Place;

/** Schemas come from strangers: what one may cost. */
const most = { places: 200_000, work: 200_000 };

/** The grammar is larger than can be held; the message says by which limit. */
export class TooLarge extends Error {}

export class Nfa {
  /** Nothing leads on from it. */
  readonly dead: Place = 0;
  readonly edges: Edge[][] = [[]];
  /** Places that one is in as well. */
  readonly beside: Place[][] = [[]];
  readonly flags: number[] = [0];
  readonly #known = new Map<string, Place>();
  #mode = 0;
  #work = 0;

  place(flags = 0): Place {
    if (this.flags.length >= most.places) throw new TooLarge(`it needs more than ${most.places} places`);
    this.edges.push([]);
    this.beside.push([]);
    return this.flags.push(flags | this.#mode) - 1;
  }

  /** What is built inside has these flags. */
  within<T>(flags: number, build: () => T): T {
    const before = this.#mode;
    this.#mode |= flags;
    try {
      return build();
    } finally {
      this.#mode = before;
    }
  }

  /** Counts something that is done, so that nothing goes on without end. */
  work(amount = 1): void {
    this.#work += amount;
    if (this.#work > most.work) throw new TooLarge(`it takes more than ${most.work} steps to unfold`);
  }

  /** A place that these bytes lead on from. */
  branch(edges: readonly Edge[]): Place {
    const alive = edges.filter(({ to }) => to !== this.dead);
    if (alive.length === 0) return this.dead;
    const key = `${this.#mode}:${alive.map(({ low, high, to }) => `${low}-${high}>${to}`).join()}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const place = this.place();
    this.edges[place]!.push(...alive);
    this.#known.set(key, place);
    return place;
  }

  byte(low: number, high: number, to: Place): Place {
    return this.branch([{ low, high, to }]);
  }

  either(...places: readonly Place[]): Place {
    this.work();
    const alive = [...new Set(places)].filter((place) => place !== this.dead);
    if (alive.length < 2) return alive[0] ?? this.dead;
    const place = this.place();
    this.beside[place]!.push(...alive);
    return place;
  }

  /** The same place, where a control token may be drawn as well. */
  markerBefore(place: Place): Place {
    if (place === this.dead) return place;
    const marked = this.place(placeFlags.marker);
    this.beside[marked]!.push(place);
    return marked;
  }

  /** Any number of times what `part` gives, then `to`. */
  loop(part: Grammar, to: Place): Place {
    const place = this.place();
    this.beside[place]!.push(to, part(this, place));
    return place;
  }
}
