import { isObject, type JsonObject } from "./model-json.ts";

/**
 * The `pre_tokenizer` of a tokenizer.json, so written that the library cuts text as tokenizers (Rust) does. It differs where JavaScript
 * does: its `\s` takes U+FEFF for a space and U+0085 not, and the library's Digits knows 0 to 9 alone, not "½", "²", "٣".
 */
export function withUnicodeWords(preTokenizer: unknown): unknown {
  if (!isObject(preTokenizer)) return preTokenizer;
  const { type, pretokenizers, pattern } = preTokenizer;
  if (Array.isArray(pretokenizers)) return { ...preTokenizer, pretokenizers: pretokenizers.map(withUnicodeWords) };
  if (type === "Digits") return splitBy(preTokenizer.individual_digits === true ? "\\p{N}" : "\\p{N}+");
  // One that puts a space before the text does so before it cuts.
  if (type === "ByteLevel" && preTokenizer.use_regex !== false && preTokenizer.add_prefix_space !== true) {
    return { type: "Sequence", pretokenizers: [splitBy(gpt2Words), { ...preTokenizer, use_regex: false }] };
  }
  if (type === "Split" && isObject(pattern) && typeof pattern.Regex === "string") {
    return { ...preTokenizer, pattern: { Regex: withUnicodeSpaces(pattern.Regex) } };
  }
  return preTokenizer;
}

function splitBy(regex: string): JsonObject {
  return { type: "Split", pattern: { Regex: withUnicodeSpaces(regex) }, behavior: "Isolated", invert: false };
}

/** What ByteLevel means by `use_regex`. */
const gpt2Words = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

function withUnicodeSpaces(regex: string): string {
  const classes = new Map([
    ["\\s", "\\p{White_Space}"],
    ["\\S", "\\P{White_Space}"],
  ]);
  return regex.replace(/\\./gs, (written) => classes.get(written) ?? written);
}
