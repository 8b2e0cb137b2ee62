/** The numbers of a file of JSON lines by column: a row a line, and of each name where it stands and what it says. */

/** Numbers of one name. What is not there is no 0 and no NaN: `has` tells. */
export class NumberColumn {
  readonly name: string;
  values: Float32Array<ArrayBuffer>;
  /** A bit a row. */
  present: Uint8Array<ArrayBuffer>;
  /** Rows that have it; the first and the last of them, with what they say as it was written. */
  count = 0;
  firstRow = -1;
  first = Number.NaN;
  lastRow = -1;
  last = Number.NaN;

  constructor(name: string, values = new Float32Array(0), present = new Uint8Array(0)) {
    this.name = name;
    this.values = values;
    this.present = present;
  }

  has(row: number): boolean {
    return ((this.present[row >> 3] ?? 0) & (1 << (row & 7))) !== 0;
  }

  /** Rows are only ever added. */
  set(row: number, value: number, capacity: number): void {
    if (row >= this.values.length) this.#grow(capacity);
    this.values[row] = value;
    // A line may say a name twice; as in JSON, the last one counts.
    const bit = 1 << (row & 7);
    if ((this.present[row >> 3]! & bit) === 0) this.count++;
    this.present[row >> 3]! |= bit;
    this.lastRow = row;
    this.last = value;
    if (this.firstRow >= 0) return;
    this.firstRow = row;
    this.first = value;
  }

  #grow(capacity: number): void {
    const [values, present] = [new Float32Array(capacity), new Uint8Array(Math.ceil(capacity / 8))];
    values.set(this.values);
    present.set(this.present);
    this.values = values;
    this.present = present;
  }
}

export class NumberTable {
  rows = 0;
  /** Of each row; never less than of the row before. */
  steps: Float64Array<ArrayBuffer>;
  readonly columns: NumberColumn[] = [];
  readonly #places = new Map<string, number>();

  constructor(steps = new Float64Array(64), columns: readonly NumberColumn[] = []) {
    this.steps = steps;
    for (const column of columns) this.#add(column);
  }

  get(name: string): NumberColumn | undefined {
    const place = this.#places.get(name);
    return place === undefined ? undefined : this.columns[place];
  }

  placeOf(name: string): number {
    return this.#places.get(name) ?? this.#add(new NumberColumn(name));
  }

  /** The step of the last row; 0 where there is none. */
  get lastStep(): number {
    return this.rows === 0 ? 0 : this.steps[this.rows - 1]!;
  }

  add(step: number, places: Int32Array, values: Float64Array, count: number): void {
    if (this.rows === this.steps.length) {
      const steps = new Float64Array(Math.max(64, this.rows * 2));
      steps.set(this.steps);
      this.steps = steps;
    }
    const row = this.rows++;
    this.steps[row] = step;
    for (let i = 0; i < count; i++) this.columns[places[i]!]!.set(row, values[i]!, this.steps.length);
  }

  #add(column: NumberColumn): number {
    const place = this.columns.push(column) - 1;
    this.#places.set(column.name, place);
    return place;
  }
}
