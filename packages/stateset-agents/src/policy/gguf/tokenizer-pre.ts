/**
 * How text is cut into words before byte-level BPE, by the name that GGUF files give it (`tokenizer.ggml.pre`). A file has only the
 * name; these are the `normalizer` and `pre_tokenizer` of the tokenizer.json of the models behind the names, where they are known
 * for sure: GPT-2, SmolLM, Llama 3, Qwen2 and Mistral Nemo.
 */
import { StatesetError } from "../../error.ts";
import { isObject, type JsonObject } from "../tokenizer/model-json.ts";
import { withUnicodeWords } from "../tokenizer/unicode-words.ts";
import { quoted } from "../weights/invalid-model.ts";

export interface PreTokenizer {
  normalizer: JsonObject | null;
  preTokenizer: JsonObject;
  /** Whether a word that is a token is taken whole, even where merges would not make it. */
  ignoreMerges: boolean;
  /** Whether plain text begins with the beginning-of-text token where the file does not say. */
  addBos: boolean;
}

const byteLevel = (use_regex: boolean) => ({
  type: "ByteLevel",
  add_prefix_space: false,
  trim_offsets: true,
  use_regex,
});

const splitBy = (Regex: string) => ({
  type: "Sequence",
  pretokenizers: [{ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false }, byteLevel(false)],
});

/** Of GPT-4 and those after it; they differ in how many digits make a word. */
const gpt4Words = (digits: string) =>
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;

const upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
const lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
const before = "[^\\r\\n\\p{L}\\p{N}]?";
const tekkenWords = `${before}${upper}*${lower}+|${before}${upper}+${lower}*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;

const plain = { normalizer: null, ignoreMerges: false, addBos: false };
const gpt2: PreTokenizer = { ...plain, preTokenizer: byteLevel(true) };
const smollm: PreTokenizer = {
  ...plain,
  preTokenizer: { type: "Sequence", pretokenizers: [{ type: "Digits", individual_digits: true }, byteLevel(true)] },
};
const llama3Words = splitBy(gpt4Words("\\p{N}{1,3}"));
const llama3: PreTokenizer = { ...plain, preTokenizer: llama3Words, ignoreMerges: true, addBos: true };
const qwen2: PreTokenizer = { ...plain, normalizer: { type: "NFC" }, preTokenizer: splitBy(gpt4Words("\\p{N}")) };
const tekken: PreTokenizer = { ...plain, preTokenizer: splitBy(tekkenWords), ignoreMerges: true, addBos: true };

/** The first name of each is the one that is written. */
const known: ReadonlyMap<string, PreTokenizer> = new Map([
  ["gpt-2", gpt2],
  ["smollm", smollm],
  ["llama-bpe", llama3],
  ["llama3", llama3],
  ["llama-v3", llama3],
  // Llama 3's words without its taking words whole.
  ["smaug-bpe", { ...plain, preTokenizer: llama3Words }],
  ["qwen2", qwen2],
  ["deepseek-r1-qwen", qwen2],
  ["tekken", tekken],
]);

/** What a file means that does not say, or says "default": the only one its architecture comes with. */
const ofArchitecture: ReadonlyMap<string, PreTokenizer> = new Map([
  ["gpt2", gpt2],
  ["qwen2", qwen2],
  ["qwen3", qwen2],
]);

export function preTokenizerNamed(
  name: string | undefined,
  architecture: string | undefined,
  file: string,
): PreTokenizer {
  const unnamed = name === undefined || name === "default";
  const found = unnamed ? ofArchitecture.get(architecture ?? "") : known.get(name);
  if (found) return found;
  const what = unnamed ? "does not say how its text is cut into words" : `cuts text into words by ${quoted(name)}`;
  throw new StatesetError("MODEL_UNSUPPORTED", `${file} ${what} (tokenizer.ggml.pre), which is not known here.`, {
    hint: `Known are ${[...known.keys()].join(", ")}. Put the tokenizer.json of the original model beside the file: it is then used instead.`,
  });
}

/** The name for what a tokenizer.json says, if there is one. */
export function preTokenizerName(tokenizerJson: JsonObject, ignoreMerges: boolean): string | undefined {
  const wanted = spelling(tokenizerJson.normalizer, tokenizerJson.pre_tokenizer);
  for (const [name, pre] of known) {
    if (pre.ignoreMerges === ignoreMerges && spelling(pre.normalizer, pre.preTokenizer) === wanted) return name;
  }
  return undefined;
}

/** Alike for all that cut alike: offsets do not matter here, and defaults may be left out. */
function spelling(normalizer: unknown, preTokenizer: unknown): string {
  return JSON.stringify([parts(normalizer, "normalizers"), parts(withUnicodeWords(preTokenizer), "pretokenizers")]);
}

function parts(value: unknown, list: "normalizers" | "pretokenizers"): unknown[] {
  if (value === undefined || value === null) return [];
  if (!isObject(value)) return [value];
  if (value.type === "Sequence" && Array.isArray(value[list])) {
    return (value[list] as unknown[]).flatMap((part) => parts(part, list));
  }
  const { trim_offsets, ...rest } = value.type === "ByteLevel" ? { use_regex: true, ...value } : value;
  return [Object.fromEntries(Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1)))];
}
