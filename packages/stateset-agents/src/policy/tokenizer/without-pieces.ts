import type { AddedToken } from "./added-tokens.ts";
import { isObject, type JsonObject } from "./model-json.ts";

export interface ReducedModel {
  model: unknown;
  config: JsonObject;
  /** Control tokens that the model itself writes for text it has no piece for. */
  fallbackIds: ReadonlySet<number>;
}

/**
 * The `model` of a tokenizer.json (and its tokenizer_config.json) so reduced that plain text cannot come out as a control token.
 * Many vocabularies list these among their pieces, and some models would find them in a text: Unigram, word lists, merges that
 * happen to spell one. The pieces keep their ids under names that no text can hold. Merges that make one are left out, so that
 * its text comes out in smaller pieces and none of it is lost.
 */
export function withoutPieces(model: unknown, config: JsonObject, control: readonly AddedToken[]): ReducedModel {
  const fallbackIds = new Set<number>();
  const controlIds = new Set<unknown>(control.map(({ id }) => id));
  const spellings = new Set(control.map(({ content }) => content));
  const rename = (piece: unknown, id: unknown) => (controlIds.has(id) ? `\uDC00${id}` : piece);
  if (!isObject(model)) return { model, config, fallbackIds };
  if (Array.isArray(model.vocab)) {
    if (typeof model.unk_id === "number") fallbackIds.add(model.unk_id);
    const vocab = model.vocab.map((entry, id) => (Array.isArray(entry) ? [rename(entry[0], id), entry[1]] : entry));
    return { model: { ...model, vocab }, config, fallbackIds };
  }
  const { vocab } = model;
  if (!isObject(vocab)) return { model, config, fallbackIds };

  const idOf = (piece: unknown) =>
    typeof piece === "string" && Object.hasOwn(vocab, piece) ? vocab[piece] : undefined;
  for (const piece of [model.unk_token, config.unk_token]) fallbackIds.add(Number(idOf(piece)));
  if (model.byte_fallback === true) {
    for (const piece of spellings) {
      if (/^<0x[0-9A-F]{2}>$/.test(piece) && spellings.delete(piece)) fallbackIds.add(Number(idOf(piece)));
    }
  }
  const listed = [...spellings].filter((piece) => controlIds.has(idOf(piece)));
  if (listed.length === 0) return { model, config, fallbackIds };
  const renamed: Record<string, unknown> = { ...vocab };
  for (const piece of listed) {
    delete renamed[piece];
    renamed[rename(piece, idOf(piece)) as string] = idOf(piece);
  }
  const unknown = <T extends JsonObject>(owner: T): T =>
    idOf(owner.unk_token) === undefined
      ? owner
      : { ...owner, unk_token: rename(owner.unk_token, idOf(owner.unk_token)) };
  const gone = new Set(listed);
  const makesOne = (merge: unknown) => gone.has(Array.isArray(merge) ? merge.join("") : String(merge).replace(" ", ""));
  const merges = Array.isArray(model.merges) ? { merges: model.merges.filter((merge) => !makesOne(merge)) } : {};
  return { model: { ...unknown(model), vocab: renamed, ...merges }, config: unknown(config), fallbackIds };
}
