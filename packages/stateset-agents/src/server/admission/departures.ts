/** How fast requests have been leaving, and so when to come again. */

/** Departures that are looked at: enough to even out long and short replies, few enough to follow a change. */
const remembered = 32;

/** Where too little is known yet, in ms. */
const unknownMs = 1000;

/** Nobody is asked to come sooner, since others come too, or later than the clients of OpenAI heed, in ms. */
const soonestMs = 50;
const latestMs = 60_000;

export class Departures {
  readonly #times: number[] = [];
  #turnedAway = 0;

  left(now: number): void {
    this.#times.push(now);
    if (this.#times.length > remembered) this.#times.shift();
    if (this.#turnedAway > 0) this.#turnedAway--;
  }

  /** To be called when somebody comes and nobody is there: how fast others left before says nothing any more. */
  forget(): void {
    this.#times.length = 0;
    this.#turnedAway = 0;
  }

  /**
   * When one who is turned away should come again, in ms: when as many have left as were turned away before it and have not yet had
   * room. So those who were turned away together do not come back together.
   */
  retryMs(now: number): number {
    this.#turnedAway++;
    return Math.round(Math.min(latestMs, Math.max(soonestMs, this.#turnedAway * this.#intervalMs(now))));
  }

  /** Between two departures. It grows while nobody leaves. */
  #intervalMs(now: number): number {
    const [first] = this.#times;
    return first === undefined || this.#times.length < 2 ? unknownMs : (now - first) / (this.#times.length - 1);
  }
}
