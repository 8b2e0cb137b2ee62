/** The tokens of a GGUF file: their texts, what kind each is, and the ids that have a role. All of it comes from strangers. */
import { invalidModel, quoted } from "../weights/invalid-model.ts";
import type { MetadataReader } from "./gguf-metadata.ts";

/** By the number that stands in `tokenizer.ggml.token_type`; 0 is "undefined", which llama.cpp treats as normal. */
export const tokenKinds = ["normal", "normal", "unknown", "control", "user-defined", "unused", "byte"] as const;
export type TokenKind = (typeof tokenKinds)[number];

/** Roles of tokens and their keys. "seperator" is how the format spells it. */
export const roleKeys = {
  bos: "tokenizer.ggml.bos_token_id",
  eos: "tokenizer.ggml.eos_token_id",
  eot: "tokenizer.ggml.eot_token_id",
  eom: "tokenizer.ggml.eom_token_id",
  unk: "tokenizer.ggml.unknown_token_id",
  pad: "tokenizer.ggml.padding_token_id",
  sep: "tokenizer.ggml.seperator_token_id",
  mask: "tokenizer.ggml.mask_token_id",
} as const;
export type TokenRole = keyof typeof roleKeys;

/** Tokens that end a reply or a text in the models that have them; files often name only one of them by its id. */
export const endNames: readonly string[] = [
  "<|im_end|>",
  "<|eot_id|>",
  "<|eom_id|>",
  "<|end_of_text|>",
  "<|endoftext|>",
  "<|end|>",
  "<end_of_turn>",
  "<end_of_utterance>",
  "<｜end▁of▁sentence｜>",
  "<EOT>",
  "</s>",
];

export interface Vocabulary {
  /** By id. An id without a token has "" . */
  tokens: readonly string[];
  kinds: readonly TokenKind[];
  /** By text; tokens without a text are not in it. */
  ids: ReadonlyMap<string, number>;
  roles: Readonly<Partial<Record<TokenRole, number>>>;
}

export function readVocabulary(reader: MetadataReader): Vocabulary {
  const listed = reader.required("tokenizer.ggml.tokens", reader.texts("tokenizer.ggml.tokens"));
  const given = readKinds(reader, listed);
  const isGap = (text: string, id: number) => text === "" || (given[id] === "unused" && text === `[PAD${id}]`);
  const tokens = listed.map((text, id) => (isGap(text, id) ? "" : text));
  const ids = new Map<string, number>();
  for (const [id, text] of tokens.entries()) {
    if (text === "") continue;
    const first = ids.get(text);
    if (first !== undefined) {
      throw invalidModel(reader.file, `token ${quoted(text)} is there twice, under the ids ${first} and ${id}`);
    }
    ids.set(text, id);
  }
  const roles = readRoles(reader, tokens, given);
  const kinds = [...given];
  // Files are known to call such tokens normal; foreign text must not become one.
  for (const role of ["bos", "eos", "eot", "eom"] as const) {
    const id = roles[role];
    if (id !== undefined && isLabel(tokens[id]!)) kinds[id] = "control";
  }
  for (const name of endNames) {
    const id = ids.get(name);
    // Qwen has the word "</s>", which ends nothing; nobody's words hold "<|im_end|>" as one.
    if (id !== undefined && (kinds[id] !== "normal" || /^<[|｜]/u.test(name))) kinds[id] = "control";
  }
  return { tokens, kinds, ids, roles };
}

/** "<s>", "[EOS]": not a word or a sign that a text may hold. */
function isLabel(text: string): boolean {
  return /^(<.+>|\[.+\])$/su.test(text);
}

function readKinds(reader: MetadataReader, tokens: readonly string[]): TokenKind[] {
  const key = "tokenizer.ggml.token_type";
  const types = reader.counts(key);
  // Files of the first days have no kinds.
  if (!types) return tokens.map((text) => (/^<\|.+\|>$/su.test(text) ? "control" : "normal"));
  checkLength(reader, key, types.length, tokens.length);
  return types.map((type, id) => {
    const kind = tokenKinds[type];
    if (kind === undefined)
      throw invalidModel(reader.file, `${key} is ${type} for token ${id}, which is no kind of token`);
    return kind;
  });
}

function readRoles(
  reader: MetadataReader,
  tokens: readonly string[],
  kinds: readonly TokenKind[],
): Partial<Record<TokenRole, number>> {
  const roles: Partial<Record<TokenRole, number>> = {};
  for (const [role, key] of Object.entries(roleKeys) as [TokenRole, string][]) {
    const id = reader.count(key);
    if (id === undefined) continue;
    if (id >= tokens.length)
      throw invalidModel(reader.file, `${key} is ${id}, but there are only ${tokens.length} tokens`);
    // Padding of the vocabulary may serve as the padding of texts; it has no text that could be named.
    if (tokens[id] !== "") roles[role] = id;
  }
  return reader.text("tokenizer.ggml.model") === "llama" ? { ...sentencePieceRoles(tokens, kinds), ...roles } : roles;
}

/** What SentencePiece gives the first ids, unless it is told otherwise. */
function sentencePieceRoles(
  tokens: readonly string[],
  kinds: readonly TokenKind[],
): Partial<Record<TokenRole, number>> {
  return {
    ...(kinds[0] === "unknown" && { unk: 0 }),
    ...(tokens[1] === "<s>" && { bos: 1 }),
    ...(tokens[2] === "</s>" && { eos: 2 }),
  };
}

export function checkLength(reader: MetadataReader, key: string, length: number, tokens: number): void {
  if (length === tokens) return;
  throw invalidModel(reader.file, `${key} has ${length} entries for ${tokens} tokens`);
}
