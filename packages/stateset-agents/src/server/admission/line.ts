/** A queue that anybody in it may leave: a list whose places are linked, because an array would be searched for who leaves. */
export class Line<T> {
  #first: Place<T> | undefined;
  #last: Place<T> | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get first(): T | undefined {
    return this.#first?.value;
  }

  get last(): T | undefined {
    return this.#last?.value;
  }

  /** At its end. What is returned leaves it, once. */
  push(value: T): () => void {
    const place: Place<T> = { value, before: this.#last, after: undefined };
    if (this.#last) this.#last.after = place;
    else this.#first = place;
    this.#last = place;
    this.#size++;
    return () => this.#remove(place);
  }

  *[Symbol.iterator](): Iterator<T> {
    for (let place = this.#first; place; place = place.after) yield place.value;
  }

  #remove(place: Place<T>): void {
    const { before, after } = place;
    if (before) before.after = after;
    else this.#first = after;
    if (after) after.before = before;
    else this.#last = before;
    this.#size--;
  }
}

interface Place<T> {
  value: T;
  before: Place<T> | undefined;
  after: Place<T> | undefined;
}
