/** How much of a reply it had already said: the share of its three-word sequences that occurred before in it. 0 for short replies. */
export function repeatedShare(text: string): number {
  const words = wordsOf(text);
  const total = words.length - 2;
  if (total < 3) return words.length >= 3 && new Set(words).size === 1 ? 1 : 0;
  const seen = new Set<string>();
  for (let i = 0; i < total; i++) seen.add(`${words[i]} ${words[i + 1]} ${words[i + 2]}`);
  return 1 - seen.size / total;
}

/** The share of words that occurred before in the reply: a chant in ever new order has no repeated sequence. 0 for short replies. */
export function repeatedWordShare(text: string): number {
  const words = wordsOf(text);
  return words.length < 6 ? 0 : 1 - new Set(words).size / words.length;
}

/** Of several lists of texts, the share of texts that are also in another list, case and spaces aside. Null where there is only one list. */
export function sharedTextShare(lists: readonly (readonly string[])[]): number | null {
  if (lists.length < 2) return null;
  const owners = new Map<string, Set<number>>();
  const keys = lists.map((texts) => texts.map((text) => wordsOf(text).join(" ")));
  keys.forEach((own, list) => {
    for (const key of own) owners.set(key, (owners.get(key) ?? new Set()).add(list));
  });
  const all = keys.flat();
  return all.length === 0 ? null : all.filter((key) => owners.get(key)!.size > 1).length / all.length;
}

/** Words, and marks one by one: a row of exclamation marks is repetition too. */
function wordsOf(text: string): string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}']+|[^\s\p{L}\p{N}'"{}[\]:,]/gu) ?? [];
}
