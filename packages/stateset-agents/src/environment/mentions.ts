/** Whether a text holds a phrase (whole words, case ignored) or meets an expression. */
export function mentions(text: string, condition: string | RegExp): boolean {
  // `search` ignores the position that global expressions remember.
  if (condition instanceof RegExp) return text.search(condition) >= 0;
  const words = condition
    .trim()
    .split(/\s+/)
    .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  // A mark stands right behind a word: "Which one?".
  const [before, after] = /[\p{L}\p{N}]/u.test(condition) ? ["(?<![\\p{L}\\p{N}])", "(?![\\p{L}\\p{N}])"] : ["", ""];
  return new RegExp(before + words.join("\\s+") + after, "iu").test(text);
}
