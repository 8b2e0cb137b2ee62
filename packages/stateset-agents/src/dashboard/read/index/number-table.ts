/** The numbers of a file of JSON lines by column: a row a line, and of each name where it stands and what it says. */

/** Numbers of one name. What is not there is no 0 and no NaN: `has` tells. */
export class NumberColumn {
  readonly name: string;
  /** As long as the table's steps, or shorter where no row after has it. */
  values: Float32Array<ArrayBuffer>;
  /** A bit a row. */
  present: Uint8Array<ArrayBuffer>;
  /** The last number, not rounded. */
  last: number;

  constructor(name: string, values = new Float32Array(0), present = new Uint8Array(0), last = Number.NaN) {
    this.name = name;
    this.values = values;
    this.present = present;
    this.last = last;
  }

  has(row: number): boolean {
    return (this.present[row >> 3]! & (1 << (row & 7))) !== 0;
  }

  /** Rows that have it. */
  get count(): number {
    let count = 0;
    for (const byte of this.present) for (let bits = byte; bits !== 0; bits &= bits - 1) count++;
    return count;
  }

  /** The first row that has it; -1: none. */
  get firstRow(): number {
    const at = this.present.findIndex((byte) => byte !== 0);
    return at < 0 ? -1 : 8 * at + Math.log2(this.present[at]! & -this.present[at]!);
  }

  reserve(rows: number): void {
    if (rows <= this.values.length) return;
    const [values, present] = [new Float32Array(rows), new Uint8Array(Math.ceil(rows / 8))];
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

  /** Made where there is none. */
  column(name: string): NumberColumn {
    return this.get(name) ?? this.#add(new NumberColumn(name));
  }

  /** The step of the last row; 0 where there is none. */
  get lastStep(): number {
    return this.rows === 0 ? 0 : this.steps[this.rows - 1]!;
  }

  /** Room for one more row. */
  reserve(): void {
    if (this.rows < this.steps.length) return;
    const steps = new Float64Array(Math.max(64, this.rows * 2));
    steps.set(this.steps);
    this.steps = steps;
  }

  #add(column: NumberColumn): NumberColumn {
    this.#places.set(column.name, this.columns.push(column) - 1);
    return column;
  }
}
