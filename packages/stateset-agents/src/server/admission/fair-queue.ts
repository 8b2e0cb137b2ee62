/**
 * Who is next. Levels are strict: nobody of a lower one is next while somebody waits on a higher. On a level keys take turns by
 * deficit round robin: each round a key may spend so many tokens more, so that one which asks for much, in many requests or in long
 * ones, waits as long for them as if it were alone with its share. Shreedhar and Varghese, "Efficient Fair Queueing Using Deficit
 * Round Robin", 1995.
 *
 * Whoever has waited long enough goes on waiting on the level above. There it does not stand in one line with those who belong there,
 * or a thousand old rollouts would be before the next person of the same key: the lines of a key take turns.
 */
import { Line } from "./line.ts";
import { priorities, type Ticket } from "./ticket.ts";

/**
 * Tokens that a key may spend in a round. About a prompt and its reply: with fewer, most rounds would let nobody in; with more, a key
 * would be let in several times before others have their turn.
 */
const roundTokens = 2048;

/**
 * After so long on a level a request waits on the one above, in ms. A rollout's is short: a step of learning waits for the last of its
 * rollouts. A batch has no one waiting, but is wanted within minutes: after 90 s in all it takes turns with everybody.
 */
export const ageMs = { rollout: 30_000, batch: 60_000 } as const;

const agesFromBelow = [
  [priorities.indexOf("batch"), ageMs.batch],
  [priorities.indexOf("rollout"), ageMs.rollout],
] as const;

/** A ticket that waits. Levels and classes are places in `priorities`. */
export interface Waiting {
  readonly ticket: Ticket;
  readonly since: number;
}

interface Standing {
  level: number;
  joined: number;
  leave(): void;
}

/** What one key has waiting on one level. */
class Flow<W> {
  /** Tokens it may spend. */
  deficit = 0;
  /** Whether it had its tokens of this round. */
  granted = false;
  /** By class. */
  readonly lines = priorities.map(() => new Line<W>());
  /** The class let in last. */
  #served = priorities.length - 1;
  leaveRing: () => void = () => {};

  get size(): number {
    return this.lines.reduce((sum, { size }) => sum + size, 0);
  }

  /** Classes take turns. */
  get next(): W {
    for (let i = 1; ; i++) {
      const first = this.lines[(this.#served + i) % priorities.length]!.first;
      if (first !== undefined) return first;
    }
  }

  spend(tokens: number, served: number): void {
    this.deficit -= tokens;
    this.#served = served;
  }
}

export class FairQueue<W extends Waiting> {
  readonly #levels = priorities.map(() => ({
    flows: new Map<string, Flow<W>>(),
    /** Flows in the order of their turns. */
    ring: new Line<Flow<W>>(),
    /** All who wait here, in the order they joined. */
    all: new Line<W>(),
  }));
  readonly #standing = new Map<W, Standing>();
  readonly #byKey = new Map<string, number>();

  get size(): number {
    return this.#standing.size;
  }

  /** How many wait, by key. */
  get byKey(): ReadonlyMap<string, number> {
    return this.#byKey;
  }

  has(one: W): boolean {
    return this.#standing.has(one);
  }

  push(one: W): void {
    this.#join(one, classOf(one), one.since);
    const { key } = one.ticket;
    this.#byKey.set(key, (this.#byKey.get(key) ?? 0) + 1);
  }

  /** Leaves without having cost its key anything. */
  remove(one: W): void {
    this.#standing.get(one)!.leave();
    this.#standing.delete(one);
    const { key } = one.ticket;
    const left = this.#byKey.get(key)! - 1;
    if (left > 0) this.#byKey.set(key, left);
    else this.#byKey.delete(key);
  }

  /** Who is next of those who may; the same until somebody comes or goes, or grows old. */
  next(now: number, mayEnter: (one: W) => boolean = () => true): W | undefined {
    this.#age(now);
    for (const { ring } of this.#levels) {
      const flow = inTurn(ring, mayEnter);
      if (flow) return flow.next;
    }
    return undefined;
  }

  /** Lets in who is next, at its key's cost. */
  take(one: W): void {
    const { level } = this.#standing.get(one)!;
    this.#levels[level]!.flows.get(one.ticket.key)!.spend(costOf(one), classOf(one));
    this.remove(one);
  }

  /** Of what a key has waiting, the one of the lowest class that came last. */
  newest(key: string): W | undefined {
    for (let own = priorities.length - 1; own >= 0; own--) {
      // Who is old has gone up, so that the newest is as far down as there are any.
      for (let level = own; level >= 0; level--) {
        const last = this.#levels[level]!.flows.get(key)?.lines[own]?.last;
        if (last !== undefined) return last;
      }
    }
    return undefined;
  }

  *[Symbol.iterator](): Iterator<W> {
    yield* this.#standing.keys();
  }

  #join(one: W, level: number, joined: number): void {
    const { flows, ring, all } = this.#levels[level]!;
    const { key } = one.ticket;
    let flow = flows.get(key);
    if (!flow) {
      flow = new Flow();
      flows.set(key, flow);
      flow.leaveRing = ring.push(flow);
    }
    const own = flow;
    const leaves = [own.lines[classOf(one)]!.push(one), all.push(one)];
    const leave = () => {
      for (const each of leaves) each();
      if (own.size > 0) return;
      // Tokens are not saved up by who asks for nothing.
      own.leaveRing();
      flows.delete(key);
    };
    this.#standing.set(one, { level, joined, leave });
  }

  /** Only when it matters who is next: nobody has to be woken for it. */
  #age(now: number): void {
    for (const [level, ms] of agesFromBelow) {
      const { all } = this.#levels[level]!;
      for (let one = all.first; one; one = all.first) {
        const { joined, leave } = this.#standing.get(one)!;
        if (now - joined < ms) break;
        leave();
        this.#join(one, level - 1, joined + ms);
      }
    }
  }
}

/** The next flow whose first may enter, once it is one that has the tokens for it. Others are passed over and get none meanwhile. */
function inTurn<W extends Waiting>(ring: Line<Flow<W>>, mayEnter: (one: W) => boolean): Flow<W> | undefined {
  const waits = (flow: Flow<W>) => mayEnter(flow.next);
  if (!some(ring, waits)) return undefined;
  for (let passed = 0; ; ) {
    const flow = ring.first!;
    if (waits(flow)) {
      if (!flow.granted) flow.deficit += roundTokens;
      flow.granted = true;
      if (flow.deficit >= costOf(flow.next)) return flow;
    }
    flow.leaveRing();
    flow.leaveRing = ring.push(flow);
    flow.granted = false;
    if (++passed % ring.size === 0) skipRounds(ring, waits);
  }
}

/** As many rounds at once as nobody could be let in: a long request may be thousands of them away. */
function skipRounds<W extends Waiting>(ring: Line<Flow<W>>, waits: (flow: Flow<W>) => boolean): void {
  let rounds = Number.POSITIVE_INFINITY;
  for (const flow of ring) {
    if (waits(flow)) rounds = Math.min(rounds, Math.ceil((costOf(flow.next) - flow.deficit) / roundTokens));
  }
  for (const flow of ring) if (waits(flow)) flow.deficit += (rounds - 1) * roundTokens;
}

function some<T>(line: Iterable<T>, is: (one: T) => boolean): boolean {
  for (const one of line) if (is(one)) return true;
  return false;
}

function classOf({ ticket }: Waiting): number {
  return priorities.indexOf(ticket.priority);
}

/** Not nothing, or a key's turn would never end. */
function costOf({ ticket }: Waiting): number {
  return Math.max(1, ticket.tokens);
}
