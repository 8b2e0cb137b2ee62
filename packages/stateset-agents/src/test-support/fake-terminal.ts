import { width } from "../telemetry/format.ts";

/** Of what a terminal understands, what the live view writes; a text that is too long goes on in the next row, as it would there. */
const sequences = new RegExp(`${String.fromCharCode(27)}\\[([0-9;]*)([A-Za-z])|[\\s\\S]`, "gu");

/** A terminal that remembers everything, for tests. */
export class FakeTerminal {
  readonly isTTY = true;
  columns: number;
  rows: number | undefined;
  /** How often it was written to, and how often a line was too long for it. */
  writes = 0;
  overflows = 0;
  /** The characters of each row. */
  #screen: string[][] = [[]];
  #row = 0;
  /** The next character's place in its row, and the column that is drawn in. */
  #at = 0;
  #column = 0;

  constructor(columns: number, rows?: number) {
    this.columns = columns;
    this.rows = rows;
  }

  write(text: string): void {
    this.writes++;
    for (const [all, argument, command] of text.matchAll(sequences)) {
      if (command === "A") this.#row = Math.max(this.#top(), this.#row - Number(argument || 1));
      else if (command === "K") this.#screen[this.#row]!.length = this.#at;
      else if (command === "J") {
        this.#screen[this.#row]!.length = this.#at;
        this.#screen.length = this.#row + 1;
      } else if (command === undefined) this.#put(all);
      else if (command !== "m") throw new Error(`The terminal does not know ${JSON.stringify(all)}.`);
    }
  }

  /** What it shows and what has scrolled away, without what a line ends with. */
  lines(): string[] {
    return this.#screen.map((characters) => characters.join("").trimEnd());
  }

  text(): string {
    return this.lines().join("\n");
  }

  /** The first row that is still on the screen. */
  #top(): number {
    return this.rows === undefined ? 0 : Math.max(0, this.#screen.length - this.rows);
  }

  #put(character: string): void {
    if (character === "\r") this.#goTo(this.#row);
    else if (character === "\n") this.#goTo(this.#row + 1);
    else {
      const own = width(character);
      if (this.#column + own > this.columns) {
        this.overflows++;
        this.#goTo(this.#row + 1);
      }
      this.#screen[this.#row]![this.#at++] = character;
      this.#column += own;
    }
  }

  #goTo(row: number): void {
    this.#row = row;
    this.#at = 0;
    this.#column = 0;
    if (row === this.#screen.length) this.#screen.push([]);
  }
}
