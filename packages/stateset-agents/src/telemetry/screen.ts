/** A block of lines at the bottom of a terminal that is drawn over and over in the same place. */
import { width } from "./format.ts";

/** Where the view is written: process.stdout, or anything like it. */
export interface ViewStream {
  write(text: string): unknown;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
  rows?: number | undefined;
}

export class Screen {
  readonly #stream: ViewStream;
  readonly #lines: (size: { columns: number; rows: number | undefined }) => string[];
  /** The columns that each line on the screen takes. */
  #drawn: number[] = [];
  #last = "";

  constructor(stream: ViewStream, lines: (size: { columns: number; rows: number | undefined }) => string[]) {
    this.#stream = stream;
    this.#lines = lines;
  }

  get columns(): number {
    return this.#stream.columns || 80;
  }

  /** Writes nothing where nothing has changed. */
  draw(): void {
    const { columns } = this;
    const lines = this.#lines({ columns, rows: this.#stream.rows || undefined });
    const text = lines.map((line) => `${line}\u001b[K\n`).join("");
    if (text === this.#last && this.#drawn.every((own) => own <= columns)) return;
    // In one write, each line over the one before it: erased first, the block would flicker.
    this.#stream.write(`${this.#up()}${text}\u001b[0J`);
    this.#drawn = lines.map(width);
    this.#last = text;
  }

  /** Lines that stay, above the block. */
  above(lines: readonly string[]): void {
    this.#stream.write(`${this.#up()}\u001b[0J${lines.map((line) => `${line}\n`).join("")}`);
    this.#drawn = [];
    this.#last = "";
    this.draw();
  }

  /** What is drawn stays. */
  leave(): void {
    this.#drawn = [];
    this.#last = "";
  }

  /** To the block's first line. On a terminal that has become narrower its lines take several rows each. */
  #up(): string {
    const rows = this.#drawn.reduce((sum, own) => sum + Math.max(1, Math.ceil(own / this.columns)), 0);
    return rows === 0 ? "" : `\u001b[${rows}A\r`;
  }
}
