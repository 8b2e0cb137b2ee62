import { Tokenizer } from "@huggingface/tokenizers";
import { messageOf, StatesetError } from "../../error.ts";
import type { TextCodec } from "./codec.ts";
import { isObject, type JsonObject } from "./model-json.ts";
import { rememberRecent } from "./recent.ts";

/** A codec from a parsed tokenizer.json and tokenizer_config.json. `where` names the folder in errors. */
export function createHuggingFaceCodec(tokenizerJson: JsonObject, config: JsonObject, where: string): TextCodec {
  const fail = (what: string, cause?: unknown) =>
    new StatesetError("TOKENIZER_INVALID", `The tokenizer in ${where} ${what}.`, {
      hint: "Its tokenizer.json is damaged or of a kind that is not supported; download the model again.",
      cause,
    });
  const added = addedTokens(tokenizerJson, config);
  let tokenizer: Tokenizer;
  let vocabSize = 0;
  try {
    tokenizer = new Tokenizer({ ...tokenizerJson, added_tokens: added }, config);
    keepByteOrderMarks(tokenizer.decoder);
    for (const id of tokenizer.get_vocab().values()) vocabSize = Math.max(vocabSize, id + 1);
  } catch (cause) {
    throw fail(`cannot be built: ${messageOf(cause)}`, cause);
  }
  const extraSpecial = Array.isArray(config.additional_special_tokens) ? config.additional_special_tokens : [];
  const specialIds = new Set<number>();
  for (const { id, content, special } of added) {
    if (special === true || extraSpecial.includes(content)) specialIds.add(id);
  }

  const codec: TextCodec = {
    vocabSize,
    specialIds,
    atomicTexts: added.map(({ content }) => content),
    exact: true,
    encode: rememberRecent((text) => {
      if (text === "") return [];
      let ids: number[];
      try {
        ids = tokenizer.encode(text, { add_special_tokens: false }).ids;
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
      const known = tokens.filter((id) => tokenizer.id_to_token(id) !== undefined);
      if (known.length === 0) return "";
      // Never "clean up" spaces before punctuation: the text must be what the tokens stand for.
      try {
        return tokenizer.decode(known, { skip_special_tokens: false, clean_up_tokenization_spaces: false });
      } catch (cause) {
        throw fail(`cannot decode tokens: ${messageOf(cause)}`, cause);
      }
    },
  };
  return { ...codec, exact: decodesExactly(codec) };
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

interface AddedToken {
  id: number;
  content: string;
  special?: boolean;
}

/** Those of tokenizer.json, and those that only tokenizer_config.json knows (fine-tunes add tokens there). */
function addedTokens(tokenizerJson: JsonObject, config: JsonObject): AddedToken[] {
  const own = Array.isArray(tokenizerJson.added_tokens) ? tokenizerJson.added_tokens.filter(isAddedToken) : [];
  const seen = new Set(own.map(({ content }) => content));
  const decoder = isObject(config.added_tokens_decoder) ? config.added_tokens_decoder : {};
  const more = Object.entries(decoder)
    .map(([id, token]) => (isObject(token) ? { ...token, id: Number(id) } : undefined))
    .filter(isAddedToken)
    .filter(({ content }) => !seen.has(content));
  return [...own, ...more];
}

function isAddedToken(value: unknown): value is AddedToken {
  return isObject(value) && Number.isInteger(value.id) && typeof value.content === "string" && value.content !== "";
}

/** SentencePiece-style decoders drop the space before the first word of whatever they are given. */
function decodesExactly(codec: TextCodec): boolean {
  const text = "a a a";
  const ids = codec.encode(text);
  return ids.map((id) => codec.decode([id])).join("") === text;
}
