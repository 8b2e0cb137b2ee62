/** A bounded map that forgets what was not asked for longest. */
export class Recent<T> {
  readonly #most: number;
  readonly #kept = new Map<string, T>();

  constructor(most: number) {
    this.#most = most;
  }

  get(key: string): T | undefined {
    const known = this.#kept.get(key);
    if (known !== undefined) this.set(key, known);
    return known;
  }

  set(key: string, value: T): T {
    this.#kept.delete(key);
    this.#kept.set(key, value);
    if (this.#kept.size > this.#most) this.#kept.delete(this.#kept.keys().next().value!);
    return value;
  }

  delete(key: string): void {
    this.#kept.delete(key);
  }
}
