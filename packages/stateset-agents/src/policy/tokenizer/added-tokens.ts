import { isObject, type JsonObject } from "./model-json.ts";

/** An entry of `added_tokens` in a tokenizer.json. */
export interface AddedToken {
  id: number;
  content: string;
  special?: boolean;
  /** Whether it swallows the space before or after it. */
  lstrip?: boolean;
  rstrip?: boolean;
  /** Whether it is looked for in the normalised text. Default: when it is not special. */
  normalized?: boolean;
}

/** Those of tokenizer.json, and those that only tokenizer_config.json knows (fine-tunes add tokens there). */
export function addedTokens(tokenizerJson: JsonObject, config: JsonObject): AddedToken[] {
  const own = Array.isArray(tokenizerJson.added_tokens) ? tokenizerJson.added_tokens.filter(isAddedToken) : [];
  const seen = new Set(own.map(({ content }) => content));
  const decoder = isObject(config.added_tokens_decoder) ? config.added_tokens_decoder : {};
  const more = Object.entries(decoder)
    .map(([id, token]) => (isObject(token) ? { ...token, id: Number(id) } : undefined))
    .filter(isAddedToken)
    .filter(({ content }) => !seen.has(content));
  return [...own, ...more];
}

/**
 * Without those of pictures and sounds that the model has no output for: the text models of a family share its vocabulary
 * (Gemma 3), and such a token can be neither given to them nor sampled. Any other token beyond the outputs is a wrong tokenizer.
 */
export function withoutMedia(
  added: readonly AddedToken[],
  config: JsonObject,
  outputs: number | undefined,
): AddedToken[] {
  const media = ["image_token", "audio_token", "video_token"].map((key) => config[key]);
  return added.filter(({ id, content }) => id < (outputs ?? Infinity) || !media.includes(content));
}

function isAddedToken(value: unknown): value is AddedToken {
  return isObject(value) && Number.isInteger(value.id) && typeof value.content === "string" && value.content !== "";
}

/**
 * Which of them are control tokens, and which are text, whoever writes it: runs of spaces (or "▁", which stands for one) that some
 * vocabularies add to save tokens, and signs that the model's own alphabet has under the same id, since it could not write them otherwise.
 */
export function sortTokens(
  added: readonly AddedToken[],
  model: unknown,
): { control: AddedToken[]; text: AddedToken[] } {
  const vocab = isObject(model) ? model.vocab : undefined;
  const isPiece = ({ id, content }: AddedToken) =>
    Array.isArray(vocab) ? vocab[id]?.[0] === content : isObject(vocab) && vocab[content] === id;
  const isText = (token: AddedToken) =>
    /^[\s▁]+$/.test(token.content) ? token.special !== true : [...token.content].length === 1 && isPiece(token);
  return { control: added.filter((token) => !isText(token)), text: added.filter(isText) };
}
