import { Tokenizer } from "@huggingface/tokenizers";
import { messageOf, StatesetError } from "../../error.ts";
import { addedTokens, sortTokens, withoutMedia } from "./added-tokens.ts";
import type { TextCodec } from "./codec.ts";
import { isObject, type JsonObject } from "./model-json.ts";
import { rememberRecent } from "./recent.ts";
import { createSignedEncoder, type SignedEncoder } from "./signed-encoder.ts";
import { tokenBytesOf } from "./token-bytes.ts";
import { withUnicodeWords } from "./unicode-words.ts";

/** A codec from a parsed tokenizer.json and tokenizer_config.json. `where` names the folder in errors, `outputs` is the model's number of them. */
export function createHuggingFaceCodec(
  written: JsonObject,
  config: JsonObject,
  where: string,
  outputs?: number,
): TextCodec {
  const tokenizerJson: JsonObject = { ...written, pre_tokenizer: withUnicodeWords(written.pre_tokenizer) };
  const fail = (what: string, cause?: unknown) =>
    new StatesetError("TOKENIZER_INVALID", `The tokenizer in ${where} ${what}.`, {
      hint: "Its tokenizer.json is damaged or of a kind that is not supported; download the model again.",
      cause,
    });
  const added = withoutMedia(addedTokens(tokenizerJson, config), config, outputs);
  const tokens = sortTokens(added, tokenizerJson.model);
  let reader: Tokenizer;
  let writer: SignedEncoder;
  let vocabSize = 0;
  try {
    // Two tokenizers: one that knows the tokens by their spelling reads ids, one that does not writes them.
    reader = new Tokenizer(
      { ...tokenizerJson, model: withoutMerges(tokenizerJson.model), added_tokens: added },
      config,
    );
    keepByteOrderMarks(reader.decoder);
    for (const id of reader.get_vocab().values()) vocabSize = Math.max(vocabSize, id + 1);
    writer = createSignedEncoder(tokenizerJson, config, tokens, vocabSize);
  } catch (cause) {
    throw fail(`cannot be built: ${messageOf(cause)}`, cause);
  }
  const extraSpecial = Array.isArray(config.additional_special_tokens) ? config.additional_special_tokens : [];
  const specialIds = new Set<number>();
  for (const { id, content, special } of added) {
    if (special === true || extraSpecial.includes(content)) specialIds.add(id);
  }

  return {
    vocabSize,
    specialIds,
    controlTokens: tokens.control.map(({ id, content }) => ({ id, text: content })),
    sign: writer.sign,
    tokenBytes: () => tokenBytesOf(tokenizerJson, reader.get_vocab(), tokens.control, vocabSize),
    encode: rememberRecent((signed) => {
      if (signed === "") return [];
      let ids: number[];
      try {
        ids = writer.encode(signed);
      } catch (cause) {
        throw fail(`cannot encode a text: ${messageOf(cause)}`, cause);
      }
      if (!ids.every((id) => Number.isInteger(id))) {
        throw fail("has no token for some of the text, and no token for unknown text");
      }
      return ids;
    }),
    decode(tokens) {
      // Models may have more outputs than the tokenizer has tokens (padding of the vocabulary): those have no text.
      const known = tokens.filter((id) => reader.id_to_token(id) !== undefined);
      if (known.length === 0) return "";
      // Never "clean up" spaces before punctuation: the text must be what the tokens stand for.
      try {
        return reader.decode(known, { skip_special_tokens: false, clean_up_tokenization_spaces: false });
      } catch (cause) {
        throw fail(`cannot decode tokens: ${messageOf(cause)}`, cause);
      }
    },
  };
}

/** Reading needs no merges, and they are the larger part of a tokenizer. */
function withoutMerges(model: unknown): unknown {
  return isObject(model) && Array.isArray(model.merges) ? { ...model, merges: [] } : model;
}

/**
 * The library's decoder of byte tokens swallows U+FEFF. (It also prints U+FFFD for the wrong bytes of a run alone, where
 * transformers prints one for every byte of the run; that is kept, since text that was streamed must stay true.)
 */
function keepByteOrderMarks(decoder: unknown): void {
  const { decoders = [], text_decoder } = (decoder ?? {}) as { decoders?: unknown[]; text_decoder?: unknown };
  if (text_decoder) Object.assign(decoder as object, { text_decoder: new TextDecoder("utf-8", { ignoreBOM: true }) });
  for (const part of decoders) keepByteOrderMarks(part);
}
