/** Whether a text holds a phrase (whole words, case ignored) or meets an expression. */
export function mentions(text: string, condition: string | RegExp): boolean {
  // `search` ignores the position that global expressions remember.
  if (condition instanceof RegExp) return text.search(condition) >= 0;
  const words = condition
    .trim()
    .split(/\s+/)
    .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`(?<![\\p{L}\\p{N}])${words.join("\\s+")}(?![\\p{L}\\p{N}])`, "iu").test(text);
}
