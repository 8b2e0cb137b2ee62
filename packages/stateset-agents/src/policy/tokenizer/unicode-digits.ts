import { isObject } from "./model-json.ts";

/**
 * The `pre_tokenizer` of a tokenizer.json with its parts of type Digits written as a Split. The library's own knows the digits
 * 0 to 9 alone; tokenizers (Rust) means every character of Unicode's category N: "½", "²", "٣".
 */
export function withUnicodeDigits(preTokenizer: unknown): unknown {
  if (!isObject(preTokenizer)) return preTokenizer;
  if (Array.isArray(preTokenizer.pretokenizers)) {
    return { ...preTokenizer, pretokenizers: preTokenizer.pretokenizers.map(withUnicodeDigits) };
  }
  if (preTokenizer.type !== "Digits") return preTokenizer;
  const Regex = preTokenizer.individual_digits === true ? "\\p{N}" : "\\p{N}+";
  return { type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false };
}
