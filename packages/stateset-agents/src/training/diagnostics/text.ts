/** How much of a reply it had already said: the share of its three-word sequences that occurred before in it. 0 for short replies. */
export function repeatedShare(text: string): number {
  const words = wordsOf(text);
  const total = words.length - 2;
  if (total < 3) return words.length >= 3 && new Set(words).size === 1 ? 1 : 0;
  const seen = new Set<string>();
  for (let i = 0; i < total; i++) seen.add(`${words[i]} ${words[i + 1]} ${words[i + 2]}`);
  return 1 - seen.size / total;
}

/** The share of texts that some other text of the list equals, case and punctuation aside. */
export function sameTextShare(texts: readonly string[]): number {
  if (texts.length < 2) return 0;
  const counts = new Map<string, number>();
  const keys = texts.map((text) => wordsOf(text).join(" "));
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return keys.filter((key) => counts.get(key)! > 1).length / texts.length;
}

function wordsOf(text: string): string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}']+/gu) ?? [];
}
