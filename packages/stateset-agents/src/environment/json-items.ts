import { parseJson } from "../conversation/read-entries.ts";
import { readText, type TextEntry } from "../conversation/read-lines.ts";
import { StatesetError } from "../error.ts";

/**
 * The items of the list in a JSON file (the file's own list, or the one an object has under `key`) one by one, each as its text and the line
 * it begins on. The file is never in memory as a whole, and a mistake is found in its item.
 */
export async function* readJsonItems(path: string, key: string): AsyncGenerator<TextEntry> {
  const items = new ItemScanner(path, key);
  for await (const chunk of readText(path)) yield* items.scan(chunk);
  const where = `${path}, line ${items.line}`;
  if (items.unfinished > 0) {
    throw new StatesetError("INVALID_DATA", `${path}, line ${items.unfinished}: what begins here has no end.`, {
      hint: "Repair its quotes and brackets, and close the list.",
    });
  }
  // What stands around the list, which has become an empty one.
  parseJson(items.around, where);
  if (items.began === 0) {
    throw new StatesetError("INVALID_DATA", `${path}, line 1: expected a list of ${key}.`, {
      hint: `Write a list, or an object with a list named \`${key}\`.`,
    });
  }
}

const sign = {
  ...{ lineFeed: 10, space: 32, quote: 34, comma: 44, backslash: 92 },
  ...{ leftBracket: 91, rightBracket: 93, leftBrace: 123, rightBrace: 125 },
} as const;

class ItemScanner {
  /** Of what is read next, and of where the list began: 0 before. */
  line = 1;
  began = 0;
  around = "";
  readonly #path: string;
  readonly #key: string;
  /** Whether the file's one value has begun. */
  #begun = false;
  #inList = false;
  #inString = false;
  #escaped = false;
  /** Brackets that are open: inside the list those of an item, outside of it those around. */
  #depth = 0;
  /** Those around the list. */
  #outer = 0;
  /** The last string of the file's object itself: where a list begins there, its key. */
  #name = "";
  #item = "";
  /** Where the item's first character stands; 0 before it. */
  #itemLine = 0;

  constructor(path: string, key: string) {
    this.#path = path;
    this.#key = key;
  }

  /** The line of the item, or of the list, that has not ended; 0 where all have. */
  get unfinished(): number {
    return this.#inList ? this.#itemLine || this.began : 0;
  }

  *scan(text: string): Generator<TextEntry> {
    let from = 0;
    let nameFrom = 0;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (this.#inList && this.#itemLine === 0 && code > sign.space) this.#itemLine = this.line;
      if (code === sign.lineFeed) this.line++;
      if (this.#inString) {
        if (this.#escaped) this.#escaped = false;
        else if (code === sign.backslash) this.#escaped = true;
        else if (code === sign.quote) {
          if (this.#atName) this.#name += text.slice(nameFrom, i);
          this.#inString = false;
        }
        continue;
      }
      if (code === sign.quote) {
        this.#inString = true;
        if (this.#atName) this.#name = "";
        nameFrom = i + 1;
      } else if (code === sign.leftBracket || code === sign.leftBrace) {
        if (!this.#inList && this.#opens(code)) {
          this.around += `${text.slice(from, i)}[`;
          from = i + 1;
        } else this.#depth++;
      } else if (this.#inList && this.#depth === 0 && (code === sign.comma || code === sign.rightBracket)) {
        const item = this.#item + text.slice(from, i);
        if (code === sign.comma || item.trim() !== "") yield { line: this.#itemLine || this.line, text: item };
        this.#item = "";
        this.#itemLine = 0;
        this.#inList = code === sign.comma;
        from = code === sign.comma ? i + 1 : i;
        if (!this.#inList) this.#depth = this.#outer;
      } else if (code === sign.rightBracket || code === sign.rightBrace) this.#depth--;
    }
    if (this.#inString && this.#atName) this.#name += text.slice(nameFrom);
    if (this.#inList) this.#item += text.slice(from);
    else this.around += text.slice(from);
  }

  /** Whether a string here may be a key of the file's object. */
  get #atName(): boolean {
    return this.#depth === 1 && !this.#inList;
  }

  /** Whether a bracket here opens the list. */
  #opens(code: number): boolean {
    if (this.#depth === 0) this.#begin();
    if (code !== sign.leftBracket || this.began > 0) return false;
    if (this.#depth > 1 || (this.#depth === 1 && this.#name !== this.#key)) return false;
    this.#inList = true;
    this.began = this.line;
    this.#outer = this.#depth;
    this.#depth = 0;
    return true;
  }

  #begin(): void {
    if (this.#begun) {
      const what = `${this.#path}, line ${this.line}: another value begins here, and a JSON file holds one.`;
      throw new StatesetError("INVALID_DATA", what, {
        hint: "Where each line is a value of its own, name the file .jsonl.",
      });
    }
    this.#begun = true;
  }
}
