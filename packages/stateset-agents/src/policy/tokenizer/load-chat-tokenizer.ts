import { StatesetError } from "../../error.ts";
import type { ChatRenderer } from "./chat-renderer.ts";
import { createTemplateRenderer, readChatTemplates } from "./chat-template.ts";
import { createChatTokenizer, type LoadedTokenizer } from "./chat-tokenizer.ts";
import type { TextCodec } from "./codec.ts";
import { createHuggingFaceCodec } from "./hugging-face-codec.ts";
import { isObject, type JsonObject, type ModelFiles, readJsonObject, whereOf } from "./model-json.ts";
import { createPlainRenderer } from "./plain-template.ts";
import { ownText } from "./traced-text.ts";

export interface LoadTokenizerOptions {
  /** The model's number of outputs. Default: vocab_size of config.json, where there is one. */
  vocabSize?: number;
  /**
   * What chat templates that print a date are told. Fixed by default (26 July 2024, which Llama's templates fall back to),
   * because a prompt that changes at midnight would make runs impossible to repeat.
   */
  today?: Date;
}

/**
 * Loads the tokenizer and chat template of a model folder in Hugging Face layout, or of such files in memory. Without a chat
 * template, conversations are printed as `Role: content` lines.
 */
export async function loadChatTokenizer(
  source: ModelFiles,
  options: LoadTokenizerOptions = {},
): Promise<LoadedTokenizer> {
  const dir = whereOf(source);
  const tokenizerJson = await readJsonObject(source, "tokenizer.json");
  if (!tokenizerJson) {
    throw new StatesetError("TOKENIZER_INVALID", `${dir} has no tokenizer.json.`, {
      hint: "In Python, AutoTokenizer.from_pretrained(model).save_pretrained(folder) writes one.",
    });
  }
  const config = (await readJsonObject(source, "tokenizer_config.json")) ?? {};
  const modelConfig = (await readJsonObject(source, "config.json")) ?? {};
  const generationConfig = (await readJsonObject(source, "generation_config.json")) ?? {};
  const outputs = options.vocabSize ?? modelConfig.vocab_size;
  const known = typeof outputs === "number" ? outputs : undefined;
  const codec = createHuggingFaceCodec(tokenizerJson, config, dir, known);
  checkVocabulary(codec, known, dir);

  const eosIds = endIds(generationConfig.eos_token_id ?? modelConfig.eos_token_id, codec, dir);
  const bosId = generationConfig.bos_token_id ?? modelConfig.bos_token_id;
  // Older models name some tokens only by their ids (GPT-2), or in a file of their own.
  const tokens: Record<string, string> = {
    ...(typeof bosId === "number" && { bos_token: codec.decode([bosId]) }),
    ...(eosIds[0] !== undefined && { eos_token: codec.decode([eosIds[0]]) }),
    ...specialTokens((await readJsonObject(source, "special_tokens_map.json")) ?? {}),
    ...specialTokens(config),
  };
  const bosToken = findId(codec, tokens.bos_token);
  const templates = await readChatTemplates(source, config);
  const addsBos = bosToken !== undefined && addsBosToken(tokenizerJson, config, bosToken);
  // A template prints the beginning-of-text token itself where its model wants one; so nothing is ever added to its output.
  const renderer =
    templates.size > 0
      ? createTemplateRenderer(templates, {
          tokens,
          today: options.today ?? new Date(Date.UTC(2024, 6, 26)),
          where: dir,
        })
      : createPlainRenderer({ bos: addsBos ? tokens.bos_token! : "", eos: tokens.eos_token ?? "" });

  const ends = new Set([
    ...eosIds,
    ...[findId(codec, tokens.eos_token), endOfTurn(codec, renderer)].filter((id) => id !== undefined),
  ]);
  return createChatTokenizer({
    codec,
    renderer,
    endTokens: [...ends],
    ...(addsBos && { bosToken }),
  });
}

function checkVocabulary(codec: TextCodec, outputs: number | undefined, dir: string): void {
  if (outputs !== undefined && codec.vocabSize > outputs) {
    throw new StatesetError(
      "TOKENIZER_INVALID",
      `The tokenizer in ${dir} has ${codec.vocabSize} tokens, but the model knows only ${outputs}.`,
      { hint: "They do not belong together; use the tokenizer that came with the model." },
    );
  }
}

/** bos_token, eos_token, … as text; a config may write them as objects. */
export function specialTokens(config: JsonObject): Record<string, string> {
  const entries = Object.entries(config).filter(([key]) => key.endsWith("_token"));
  const texts = entries.map(([key, value]) => [key, isObject(value) ? value.content : value]);
  return Object.fromEntries(texts.filter(([, text]) => typeof text === "string" && text !== ""));
}

/** The id of a text that is one token, such as a special one. */
function findId(codec: TextCodec, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const ids = codec.encode(codec.sign(ownText(text)));
  return ids.length === 1 ? ids[0] : undefined;
}

/** Whether plain text gets the token in front: the post-processor of tokenizer.json says so, or add_bos_token does. */
export function addsBosToken(tokenizerJson: JsonObject, config: JsonObject, bos: number): boolean {
  if (typeof config.add_bos_token === "boolean") return config.add_bos_token;
  return [tokenizerJson.post_processor].flat().some((processor) => startsWithSpecial(processor, bos));
}

function startsWithSpecial(processor: unknown, bos: number): boolean {
  if (!isObject(processor)) return false;
  if (Array.isArray(processor.processors)) return processor.processors.some((part) => startsWithSpecial(part, bos));
  const first: unknown = Array.isArray(processor.single) ? processor.single[0] : undefined;
  const name = isObject(first) && isObject(first.SpecialToken) ? first.SpecialToken.id : undefined;
  const token =
    isObject(processor.special_tokens) && typeof name === "string" ? processor.special_tokens[name] : undefined;
  return isObject(token) && Array.isArray(token.ids) && token.ids[0] === bos;
}

function endIds(value: unknown, codec: TextCodec, dir: string): number[] {
  const ids = value === undefined || value === null ? [] : [value].flat();
  return ids.map((id) => {
    if (Number.isInteger(id) && (id as number) >= 0 && (id as number) < codec.vocabSize) return id as number;
    throw new StatesetError("TOKENIZER_INVALID", `eos_token_id in ${dir} is ${JSON.stringify(id)}, which is no token.`);
  });
}

/** The special token the template itself closes an assistant turn with, found by rendering one. */
function endOfTurn(codec: TextCodec, renderer: ChatRenderer): number | undefined {
  const content = "PROBE";
  let turn: string;
  try {
    const said = renderer.print(
      [
        { role: "user", content: "a" },
        { role: "assistant", content },
      ],
      {},
    );
    turn = codec.sign(said);
  } catch (error) {
    // A template that cannot print this conversation will say so when it is used.
    if (StatesetError.isInstance(error)) return undefined;
    throw error;
  }
  const at = turn.lastIndexOf(content);
  if (at < 0) return undefined;
  const [first] = codec.encode(turn.slice(at + content.length).trimStart());
  return first !== undefined && codec.specialIds.has(first) ? first : undefined;
}
