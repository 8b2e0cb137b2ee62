/** The way back from tokenizer-files.ts: a tokenizer.json and its companions as metadata of a GGUF file, for llama.cpp and Ollama. */
import { StatesetError } from "../../error.ts";
import { type AddedToken, addedTokens } from "../tokenizer/added-tokens.ts";
import { readChatTemplates } from "../tokenizer/chat-template.ts";
import { addsBosToken, specialTokens } from "../tokenizer/load-chat-tokenizer.ts";
import { isObject, type JsonObject, type ModelFiles, readJsonObject, whereOf } from "../tokenizer/model-json.ts";
import { quoted } from "../weights/invalid-model.ts";
import { bytePieces } from "./tokenizer-files.ts";
import { mergesOf } from "./tokenizer-merges.ts";
import { preTokenizerName } from "./tokenizer-pre.ts";
import { endNames, roleKeys, type TokenKind, type TokenRole } from "./tokenizer-vocabulary.ts";

/** Numbers are u32, lists of numbers i32 or f32 as their arrays say. */
export type TokenizerValue = string | boolean | number | readonly string[] | Int32Array | Float32Array;

/**
 * The metadata of a tokenizer. `vocabSize` is the model's number of outputs; ids without a token are padding. `modelJson` is the model's
 * config.json, which need not lie beside the tokenizer.
 */
export async function ggufTokenizer(
  source: ModelFiles,
  vocabSize?: number,
  modelJson?: JsonObject,
): Promise<Map<string, TokenizerValue>> {
  const where = whereOf(source);
  const read = async (name: string) => (await readJsonObject(source, name)) ?? {};
  const [tokenizerJson, config] = [await read("tokenizer.json"), await read("tokenizer_config.json")];
  const model = isObject(tokenizerJson.model) ? tokenizerJson.model : {};
  const refuse = refusalOf(where);
  checkModel(model, refuse);
  const added = addedTokens(tokenizerJson, config);
  checkAdded(added, tokenizerJson.normalizer, refuse);
  const isSentencePiece = model.byte_fallback === true;
  const list = listTokens(model, added, isSentencePiece, vocabSize, refuse);
  const merges = mergesIn(model, refuse);
  const kind = isSentencePiece
    ? sentencePieceMetadata(tokenizerJson, list, merges, where, refuse)
    : byteLevelMetadata(tokenizerJson, model, merges, refuse);

  const texts = { ...specialTokens(await read("special_tokens_map.json")), ...specialTokens(config) };
  const generation = await read("generation_config.json");
  const ends = [generation.eos_token_id ?? (modelJson ?? (await read("config.json"))).eos_token_id ?? []].flat();
  const roles = findRoles(texts, ends, list, refuse);
  const templates = await readChatTemplates(source, config);
  const others = [...templates.keys()].filter((name) => name !== "default");
  const main = templates.get("default");
  return new Map<string, TokenizerValue>([
    ...kind,
    ["tokenizer.ggml.tokens", list.tokens],
    ["tokenizer.ggml.token_type", Int32Array.from(list.kinds, (token) => typeOf[token])],
    ...(Object.entries(roles) as [TokenRole, number][]).map(([role, id]) => [roleKeys[role], id] as const),
    ["tokenizer.ggml.add_bos_token", roles.bos !== undefined && addsBosToken(tokenizerJson, config, roles.bos)],
    ["tokenizer.ggml.add_eos_token", config.add_eos_token === true],
    ...(main === undefined ? [] : [["tokenizer.chat_template", main] as const]),
    ...(others.length === 0 ? [] : [["tokenizer.chat_templates", others] as const]),
    ...others.map((name) => [`tokenizer.chat_template.${name}`, templates.get(name)!] as const),
  ]);
}

const typeOf: Readonly<Record<TokenKind, number>> = {
  normal: 1,
  unknown: 2,
  control: 3,
  "user-defined": 4,
  unused: 5,
  byte: 6,
};

type Refuse = (what: string) => StatesetError;

function refusalOf(where: string): Refuse {
  return (what) =>
    new StatesetError("MODEL_UNSUPPORTED", `The tokenizer in ${where} cannot be written to a GGUF file: ${what}.`, {
      hint: "GGUF knows a tokenizer by name and by few settings. Export the model as safetensors instead.",
    });
}

function checkModel(model: JsonObject, refuse: Refuse): void {
  if (model.type !== "BPE" || !isObject(model.vocab))
    throw refuse(`its model is ${quoted(String(model.type))}, not BPE`);
  for (const key of ["dropout", "continuing_subword_prefix", "end_of_word_suffix"]) {
    if (model[key]) throw refuse(`its model has ${quoted(key)}`);
  }
}

function checkAdded(
  added: readonly (AddedToken & { single_word?: unknown })[],
  normalizer: unknown,
  refuse: Refuse,
): void {
  for (const token of added) {
    const flag = (["lstrip", "rstrip", "single_word"] as const).find((name) => token[name] === true);
    if (flag) throw refuse(`its token ${quoted(token.content)} has ${quoted(flag)}`);
    const normalized = token.normalized ?? token.special !== true;
    // Composing characters does not change a token of ASCII, and nearly all are.
    const changes = isObject(normalizer) && normalizer.type !== "NFC" && !isEmptySequence(normalizer);
    if (normalized && changes) throw refuse(`its token ${quoted(token.content)} is looked for in normalised text`);
  }
}

const isEmptySequence = (value: JsonObject) => Array.isArray(value.normalizers) && value.normalizers.length === 0;

interface TokenList {
  tokens: string[];
  kinds: TokenKind[];
  ids: ReadonlyMap<string, number>;
}

function listTokens(
  model: JsonObject,
  added: readonly AddedToken[],
  isSentencePiece: boolean,
  vocabSize: number | undefined,
  refuse: Refuse,
): TokenList {
  const pieces = Object.entries(model.vocab as JsonObject);
  const all = [...pieces, ...added.map(({ content, id }) => [content, id] as const)];
  const ids = new Map<string, number>();
  let length = 0;
  for (const [text, id] of all) {
    if (!Number.isSafeInteger(id) || (id as number) < 0)
      throw refuse(`its token ${quoted(text)} has the id ${String(id)}`);
    if ((ids.get(text) ?? id) !== id) throw refuse(`its token ${quoted(text)} has two ids`);
    ids.set(text, id as number);
    length = Math.max(length, (id as number) + 1);
  }
  if (vocabSize !== undefined && length > vocabSize) throw refuse(`it has ${length} tokens for ${vocabSize} outputs`);
  // Ids far apart would ask for a list as long as the largest.
  if (length > 2 * ids.size + 65_536) throw refuse(`its ids go up to ${length - 1} for ${ids.size} tokens`);
  const tokens = Array.from({ length: vocabSize ?? length }, (_, id) => `[PAD${id}]`);
  const kinds = tokens.map((): TokenKind => "unused");
  for (const [text, id] of ids) {
    if (kinds[id] !== "unused") throw refuse(`id ${id} has two tokens, ${quoted(tokens[id]!)} and ${quoted(text)}`);
    tokens[id] = text;
    kinds[id] = "normal";
  }
  for (const { id, special } of added) kinds[id] = special === true ? "control" : "user-defined";
  if (!isSentencePiece) return { tokens, kinds, ids };
  for (const piece of bytePieces) {
    const id = ids.get(piece);
    if (id === undefined) throw refuse(`it has no token ${quoted(piece)}`);
    kinds[id] = "byte";
  }
  const unknown = ids.get(String(model.unk_token));
  if (unknown !== undefined) kinds[unknown] = "unknown";
  return { tokens, kinds, ids };
}

function mergesIn(model: JsonObject, refuse: Refuse): string[] {
  const merges: unknown[] = Array.isArray(model.merges) ? model.merges : [];
  return merges.map((merge, i) => {
    const pair: unknown[] = typeof merge === "string" ? merge.split(" ") : Array.isArray(merge) ? merge : [];
    const whole =
      pair.length === 2 && pair.every((part) => typeof part === "string" && part !== "" && !part.includes(" "));
    if (!whole)
      throw refuse(
        `its merge ${i}, ${quoted(JSON.stringify(merge) ?? "nothing")}, is no pair of tokens without spaces`,
      );
    return pair.join(" ");
  });
}

type Entries = (readonly [string, TokenizerValue])[];

function byteLevelMetadata(tokenizerJson: JsonObject, model: JsonObject, merges: string[], refuse: Refuse): Entries {
  const pre = preTokenizerName(tokenizerJson, model.ignore_merges === true);
  if (pre === undefined) {
    const { normalizer, pre_tokenizer } = tokenizerJson;
    const said = JSON.stringify({ normalizer, pre_tokenizer, ignore_merges: model.ignore_merges === true });
    throw refuse(`GGUF has no name that is known here for how it cuts text into words, ${said.slice(0, 600)}`);
  }
  return [
    ["tokenizer.ggml.model", "gpt2"],
    ["tokenizer.ggml.pre", pre],
    ["tokenizer.ggml.merges", merges],
  ];
}

function sentencePieceMetadata(
  { normalizer, pre_tokenizer }: JsonObject,
  list: TokenList,
  merges: string[],
  where: string,
  refuse: Refuse,
): Entries {
  const rank = new Map<string, number>();
  for (const [i, merge] of merges.entries()) {
    const made = merge.replace(" ", "");
    if (!rank.has(made)) rank.set(made, i);
  }
  // A piece's score is the place of its first merge; single characters have none, and come last as in SentencePiece.
  const places = [...rank.keys()];
  const place = new Map(places.map((text, i) => [text, i]));
  const scores = Float32Array.from(list.tokens, (text, id) =>
    list.kinds[id] === "normal" ? -(place.get(text) ?? places.length) : 0,
  );
  if (!sameMerges(merges, mergesOf(list, scores, where))) {
    throw refuse("its merges are not what scores of its tokens, as SentencePiece has them, would give");
  }
  return [
    ["tokenizer.ggml.model", "llama"],
    ["tokenizer.ggml.pre", "default"],
    ["tokenizer.ggml.scores", scores],
    ["tokenizer.ggml.add_space_prefix", hasSpacePrefix(normalizer, pre_tokenizer, refuse)],
  ];
}

/** The ways to make one piece may come in any order among themselves; llama.cpp takes the leftmost in the text. */
function sameMerges(given: readonly string[], derived: readonly string[]): boolean {
  const inOrder = (merges: readonly string[]) => {
    const groups = new Map<string, string[]>();
    let last = "";
    for (const merge of merges) {
      const made = merge.replace(" ", "");
      // The same piece again after another one: no score can say that.
      if (made !== last && groups.has(made)) return merges;
      groups.set(made, [...(groups.get(made) ?? []), merge]);
      last = made;
    }
    return [...groups.values()].flatMap((group) => group.sort());
  };
  const [a, b] = [inOrder(given), inOrder(derived)];
  return a.length === b.length && a.every((merge, i) => merge === b[i]);
}

function hasSpacePrefix(normalizer: unknown, preTokenizer: unknown, refuse: Refuse): boolean {
  const spaces = { type: "Replace", pattern: { String: " " }, content: "▁" };
  const is = (value: unknown, wanted: unknown) => JSON.stringify(value ?? null) === JSON.stringify(wanted);
  const prefixed = { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "▁" }, spaces] };
  if (is(preTokenizer, null)) {
    if (is(normalizer, prefixed)) return true;
    if (is(normalizer, spaces) || is(normalizer, { type: "Sequence", normalizers: [spaces] })) return false;
  }
  const said = JSON.stringify({ normalizer, pre_tokenizer: preTokenizer });
  throw refuse(`it treats spaces otherwise than llama.cpp, ${said.slice(0, 300)}`);
}

function findRoles(
  texts: Readonly<Record<string, string>>,
  ends: readonly unknown[],
  { ids, tokens }: TokenList,
  refuse: Refuse,
): Partial<Record<TokenRole, number>> {
  const roles: Partial<Record<TokenRole, number>> = {};
  for (const role of ["bos", "eos", "unk", "pad", "sep", "mask"] as const) {
    const id = ids.get(texts[`${role}_token`] ?? "");
    if (id !== undefined) roles[role] = id;
  }
  const left: number[] = [];
  for (const end of ends) {
    const text = Number.isInteger(end) ? tokens[end as number] : undefined;
    if (text === undefined) throw refuse(`its eos_token_id ${JSON.stringify(end)} is no token`);
    roles.eos ??= end as number;
    if (end !== roles.eos) left.push(end as number);
  }
  // Readers find the known ones by name; the format has room for two more.
  const [eot, eom, more] = left.sort(
    (a, b) => Number(endNames.includes(tokens[a]!)) - Number(endNames.includes(tokens[b]!)),
  );
  if (more !== undefined && !endNames.includes(tokens[more]!)) throw refuse("more than three tokens end its replies");
  return { ...roles, ...(eot !== undefined && { eot }), ...(eom !== undefined && { eom }) };
}
