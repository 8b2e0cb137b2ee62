/** A GGUF file carries its tokenizer as metadata. This writes it down as the files that a Hugging Face folder would hold. */
import { StatesetError } from "../../error.ts";
import type { JsonObject } from "../tokenizer/model-json.ts";
import { invalidModel, quoted } from "../weights/invalid-model.ts";
import { type GgufMetadata, MetadataReader } from "./gguf-metadata.ts";
import { isBytePiece, listedMerges, scoredMerges } from "./tokenizer-merges.ts";
import { preTokenizerNamed } from "./tokenizer-pre.ts";
import { endNames, readVocabulary, type TokenRole, type Vocabulary } from "./tokenizer-vocabulary.ts";

export interface TokenizerFiles extends Readonly<Record<string, JsonObject>> {
  "tokenizer.json": JsonObject;
  /** Names of special tokens, and the chat template. */
  "tokenizer_config.json": JsonObject;
  /** Every token that ends a reply. */
  "generation_config.json": JsonObject;
}

/** `file` names the GGUF file in errors. */
export function tokenizerFiles(metadata: GgufMetadata, file: string): TokenizerFiles {
  const reader = new MetadataReader(metadata, file);
  const kind = reader.required("tokenizer.ggml.model", reader.text("tokenizer.ggml.model"));
  if (kind !== "gpt2" && kind !== "llama") {
    throw new StatesetError("MODEL_UNSUPPORTED", `${file} has a tokenizer of the kind ${quoted(kind)}.`, {
      hint: "Known are gpt2 (byte-level BPE) and llama (SentencePiece). Put the tokenizer.json of the original model beside the file.",
    });
  }
  const vocabulary = readVocabulary(reader);
  const { addBos: bosByDefault, ...parts } =
    kind === "gpt2" ? byteLevelParts(reader, vocabulary) : sentencePieceParts(reader, vocabulary);
  const { roles } = vocabulary;
  const addBos = roles.bos !== undefined && (reader.flag("tokenizer.ggml.add_bos_token") ?? bosByDefault);
  const addEos = roles.eos !== undefined && (reader.flag("tokenizer.ggml.add_eos_token") ?? false);
  const ends = endIds(vocabulary);
  return {
    "tokenizer.json": {
      version: "1.0",
      truncation: null,
      padding: null,
      added_tokens: addedTokens(vocabulary),
      ...parts,
      post_processor: around(vocabulary, addBos ? roles.bos : undefined, addEos ? roles.eos : undefined),
    },
    "tokenizer_config.json": {
      tokenizer_class: "PreTrainedTokenizerFast",
      clean_up_tokenization_spaces: false,
      add_bos_token: addBos,
      add_eos_token: addEos,
      ...namedTokens(vocabulary),
      ...chatTemplates(reader),
    },
    "generation_config.json": {
      ...(roles.bos !== undefined && { bos_token_id: roles.bos }),
      ...(ends.length > 0 && { eos_token_id: ends.length === 1 ? ends[0] : ends }),
      ...(roles.pad !== undefined && { pad_token_id: roles.pad }),
    },
  };
}

interface Parts {
  normalizer: JsonObject | null;
  pre_tokenizer: JsonObject | null;
  decoder: JsonObject;
  model: JsonObject;
  addBos: boolean;
}

function byteLevelParts(reader: MetadataReader, vocabulary: Vocabulary): Parts {
  const [name, architecture] = [reader.text("tokenizer.ggml.pre"), reader.text("general.architecture")];
  const pre = preTokenizerNamed(name, architecture, reader.file);
  const merges = reader.required("tokenizer.ggml.merges", listedMerges(reader, vocabulary));
  return {
    normalizer: pre.normalizer,
    pre_tokenizer: pre.preTokenizer,
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: bpe(vocabulary, { ignore_merges: pre.ignoreMerges, merges }),
    addBos: pre.addBos,
  };
}

function sentencePieceParts(reader: MetadataReader, vocabulary: Vocabulary): Parts {
  const { tokens, kinds, ids, roles } = vocabulary;
  for (const [id, text] of tokens.entries()) {
    if (kinds[id] === "byte" && !isBytePiece(text)) {
      throw invalidModel(reader.file, `token ${id} is said to be a byte, but is ${quoted(text)}`);
    }
  }
  // Before the text, and after every control token: what llama.cpp does, and the tokenizer.json of Llama 2.
  const prefix = reader.flag("tokenizer.ggml.add_space_prefix") ?? true;
  const unknown = roles.unk === undefined ? null : tokens[roles.unk]!;
  const byte_fallback = bytePieces.every((piece) => ids.has(piece));
  if (!byte_fallback && unknown === null) {
    throw invalidModel(reader.file, "its tokenizer has neither a token for each byte nor one for unknown text");
  }
  const merges = listedMerges(reader, vocabulary) ?? scoredMerges(reader, vocabulary);
  const spaces = { type: "Replace", pattern: { String: " " }, content: "▁" };
  return {
    normalizer: prefix ? { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "▁" }, spaces] } : spaces,
    pre_tokenizer: null,
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: "▁" }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        ...(prefix ? [{ type: "Strip", content: " ", start: 1, stop: 0 }] : []),
      ],
    },
    model: bpe(vocabulary, { unk_token: unknown, fuse_unk: true, byte_fallback, merges }),
    addBos: true,
  };
}

export const bytePieces: readonly string[] = Array.from(
  { length: 256 },
  (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`,
);

function bpe({ ids }: Vocabulary, own: JsonObject): JsonObject {
  return {
    type: "BPE",
    dropout: null,
    unk_token: null,
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: false,
    byte_fallback: false,
    ignore_merges: false,
    // Not by assignment: a token may be called "__proto__".
    vocab: Object.fromEntries(ids),
    ...own,
  };
}

function addedTokens({ tokens, kinds }: Vocabulary): JsonObject[] {
  const added: JsonObject[] = [];
  for (const [id, content] of tokens.entries()) {
    const kind = kinds[id]!;
    if (content === "" || (kind !== "control" && kind !== "unknown" && kind !== "user-defined")) continue;
    const special = kind !== "user-defined";
    added.push({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special });
  }
  return added;
}

/** The post-processor that puts these tokens around a text. */
function around({ tokens }: Vocabulary, bos: number | undefined, eos: number | undefined): JsonObject | null {
  if (bos === undefined && eos === undefined) return null;
  const special = (id: number | undefined, type_id: number) =>
    id === undefined ? [] : [{ SpecialToken: { id: tokens[id]!, type_id } }];
  const text = (id: "A" | "B", type_id: number) => [
    ...special(bos, type_id),
    { Sequence: { id, type_id } },
    ...special(eos, type_id),
  ];
  const used = [bos, eos].filter((id) => id !== undefined);
  return {
    type: "TemplateProcessing",
    single: text("A", 0),
    pair: [...text("A", 0), ...text("B", 1)],
    special_tokens: Object.fromEntries(
      used.map((id) => [tokens[id]!, { id: tokens[id]!, ids: [id], tokens: [tokens[id]!] }]),
    ),
  };
}

/** Those that are no text. A file may name a word as the end of a reply; its id says so then. */
function namedTokens({ tokens, kinds, roles }: Vocabulary): JsonObject {
  const names = (["bos", "eos", "unk", "pad", "sep", "mask"] as const satisfies TokenRole[]).flatMap((role) => {
    const id = roles[role];
    return id === undefined || kinds[id] === "normal" ? [] : [[`${role}_token`, tokens[id]!] as const];
  });
  return Object.fromEntries(names);
}

function endIds({ kinds, ids, roles }: Vocabulary): number[] {
  // Where replies end with <|return|>, <|end|> ends a part of one.
  const names = ids.has("<|return|>") ? endNames.filter((name) => name !== "<|end|>") : endNames;
  const named = names.map((name) => ids.get(name)).filter((id) => id !== undefined && kinds[id] === "control");
  return [...new Set([roles.eos, roles.eot, roles.eom, ...named].filter((id) => id !== undefined))];
}

function chatTemplates(reader: MetadataReader): JsonObject {
  const main = "tokenizer.chat_template";
  const first = reader.text(main);
  const others = [...reader.metadata.keys()]
    .filter((key) => key.startsWith(`${main}.`))
    .map((key) => ({ name: key.slice(main.length + 1), template: reader.text(key)! }));
  if (others.length === 0) return first === undefined ? {} : { chat_template: first };
  return { chat_template: [...(first === undefined ? [] : [{ name: "default", template: first }]), ...others] };
}
