import type { Model } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";
import type { ByteAutomaton } from "../policy.ts";
import type { LoadedTokenizer, TokenBytes } from "../tokenizer/index.ts";

/** Constraints that the engine keeps ready, with the tokens they allow. */
const mostKept = 32;

/**
 * Bytes that constrained text is made of. A token for each means that there is always a way on. F1 to F3 begin the characters of planes
 * that Unicode has not assigned, and vocabularies learnt from text lack them (SmolLM2); other characters stand beside them wherever they may.
 */
const needed = [0x09, 0x0a, 0x0d, ...Array.from({ length: 0xf4 - 0x20 + 1 }, (_, i) => 0x20 + i)].filter(
  (byte) => byte !== 0x7f && byte !== 0xc0 && byte !== 0xc1 && (byte < 0xf1 || byte > 0xf3),
);

/** Hands constraints to the engine, each once. */
export class Constraints {
  readonly #model: Model;
  readonly #tokenizer: LoadedTokenizer;
  readonly #vocabSize: number;
  readonly #ids = new Map<ByteAutomaton, number>();
  #last = 0;
  #supported: boolean | undefined;

  constructor(model: Model, tokenizer: LoadedTokenizer, vocabSize: number) {
    this.#model = model;
    this.#tokenizer = tokenizer;
    this.#vocabSize = vocabSize;
  }

  /** Whether the vocabulary can spell whatever a constraint may ask for. */
  get supported(): boolean {
    this.#supported ??= this.#setVocabulary();
    return this.#supported;
  }

  /** The number that a request names it by. */
  idOf(constraint: ByteAutomaton): number {
    if (!this.supported) {
      throw new StatesetError("INVALID_OPTION", "This model's replies cannot be constrained.", {
        hint: "Its vocabulary has no token for every byte. Turn constrain off; arguments of tools are validated either way.",
      });
    }
    const known = this.#ids.get(constraint);
    if (known !== undefined) {
      this.#ids.delete(constraint);
      this.#ids.set(constraint, known);
      return known;
    }
    const id = ++this.#last;
    this.#model.setConstraint(id, constraint);
    this.#ids.set(constraint, id);
    for (const [oldest, old] of this.#ids) {
      if (this.#ids.size <= mostKept) break;
      this.#ids.delete(oldest);
      this.#model.setConstraint(old, undefined);
    }
    return id;
  }

  #setVocabulary(): boolean {
    const spelt = this.#tokenizer.tokenBytes();
    if (!spelt || !canSpell(spelt)) return false;
    const { bytes, control } = spelt;
    const all = Array.from({ length: this.#vocabSize }, (_, id) => bytes[id] ?? new Uint8Array());
    const ends = new Int32Array(all.length);
    let end = 0;
    for (const [id, own] of all.entries()) ends[id] = end += own.length;
    const kinds = Uint8Array.from(all, ({ length }, id) => (control.has(id) ? 2 : length > 0 ? 1 : 0));
    this.#model.setVocabulary({ bytes: Buffer.concat(all), ends, kinds });
    return true;
  }
}

function canSpell({ bytes, control }: TokenBytes): boolean {
  const single = new Set(bytes.flatMap((own, id) => (own?.length === 1 && !control.has(id) ? [own[0]!] : [])));
  return needed.every((byte) => single.has(byte));
}
