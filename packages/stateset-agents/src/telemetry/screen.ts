/** A block of lines at the bottom of a terminal that is drawn over and over in the same place. */

import { divert } from "./divert.ts";
import { width } from "./format.ts";

/** Where the view is written: process.stdout, or anything like it. */
export interface ViewStream {
  write(text: string): unknown;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
  rows?: number | undefined;
}

export interface ScreenSize {
  columns: number;
  /** Undefined where it is not known. */
  rows: number | undefined;
}

/** The block that has the terminal of this process; there is room for one. */
let holder: Screen | undefined;

export class Screen {
  readonly #stream: ViewStream;
  readonly #lines: (size: ScreenSize) => string[];
  /** What lead to the terminal of this process. */
  readonly #outputs: readonly ViewStream[];
  #write: (text: string) => unknown;
  #giveBack: (() => void) | undefined;
  /** The columns that each line on the screen takes. */
  #drawn: number[] = [];
  #last = "";

  constructor(
    stream: ViewStream,
    lines: (size: ScreenSize) => string[],
    outputs: readonly ViewStream[] = [process.stdout, process.stderr],
  ) {
    this.#stream = stream;
    this.#lines = lines;
    this.#outputs = outputs;
    this.#write = (text) => stream.write(text);
  }

  get columns(): number {
    return this.#stream.columns || 80;
  }

  /** Begins: what the program prints from now on goes above the block. False where another block has the terminal. */
  take(): boolean {
    if (!this.#outputs.includes(this.#stream)) return true;
    if (holder !== undefined) return holder === this;
    holder = this;
    const write = this.#stream.write;
    this.#write = (text) => write.call(this.#stream, text);
    const terminals = this.#outputs.filter(({ isTTY }) => isTTY);
    this.#giveBack = divert(terminals, (text) => this.#above(text));
    return true;
  }

  /** Writes nothing where nothing has changed. */
  draw(): void {
    const { columns } = this;
    const lines = this.#lines({ columns, rows: this.#stream.rows || undefined });
    const text = lines.map((line) => `${line}\u001b[K\n`).join("");
    if (text === this.#last && this.#drawn.every((own) => own <= columns)) return;
    // In one write, each line over the one before it: erased first, the block would flicker.
    this.#write(`${this.#up()}${text}\u001b[0J`);
    this.#drawn = lines.map(width);
    this.#last = text;
  }

  /** Lines that stay, above the block. */
  above(lines: readonly string[]): void {
    this.#above(lines.map((line) => `${line}\n`).join(""));
  }

  /** What is drawn stays, and the terminal is anybody's again. */
  leave(): void {
    this.#drawn = [];
    this.#last = "";
    this.#giveBack?.();
    this.#giveBack = undefined;
    if (holder === this) holder = undefined;
  }

  #above(text: string): void {
    this.#write(`${this.#up()}\u001b[0J${text}`);
    this.#drawn = [];
    this.#last = "";
    this.draw();
  }

  /** To the block's first line. On a terminal that has become narrower its lines take several rows each. */
  #up(): string {
    const rows = this.#drawn.reduce((sum, own) => sum + Math.max(1, Math.ceil(own / this.columns)), 0);
    return rows === 0 ? "" : `\u001b[${rows}A\r`;
  }
}
