/** Words in lower case; numbers, prices and e-mail addresses count as words. */
export function wordsOf(text: string): string[] {
  return (
    text
      .toLowerCase()
      .replaceAll("’", "'")
      .match(/[\p{L}\p{N}$€£%@]+(?:['.@-][\p{L}\p{N}]+)*/gu) ?? []
  );
}

/** Words that carry grammar rather than meaning. About half of running English. */
export const functionWords: ReadonlySet<string> = new Set(
  `a about above after again all also am an and any are as at be been before being but by can can't cannot could did do does
  doesn't don't down during each every few for from get go got had has have having he her here hers him his how i i'd i'll i'm
  i've if in into is isn't it it's its just let let's may me might more most my no nor not now of off on once one only or other
  our ours out over own s same she should so some such than that that's the their them then there there's these they they're this
  those through to too under until up us very was we we'll we're we've were what what's when where which while who whom why will
  with won't would yes you you'd you'll you're you've your yours`.split(/\s+/),
);

/** Meaningful words, roughly reduced to their stems so that "crashes" meets "crashing". */
export function stemsOf(text: string): string[] {
  return wordsOf(text)
    .filter((word) => !functionWords.has(word) && word.length > 2)
    .map((word) => word.replace(/(?:'s|ies|ing|ed|es|s|e)$/u, ""))
    .filter((stem) => stem.length > 1);
}

export function ngrams(words: readonly string[], n: number): string[] {
  return words.slice(0, Math.max(0, words.length - n + 1)).map((_, i) => words.slice(i, i + n).join(" "));
}

/** Shared members over all members; 0 when both are empty. */
export function jaccard(a: Iterable<string>, b: Iterable<string>): number {
  const left = new Set(a);
  const right = new Set(b);
  const shared = [...left].filter((item) => right.has(item)).length;
  const all = left.size + right.size - shared;
  return all === 0 ? 0 : shared / all;
}

/** The length of the longest run of words that both have. */
export function longestSharedRun(a: readonly string[], b: readonly string[]): number {
  let best = 0;
  let row = new Array<number>(b.length + 1).fill(0);
  for (const word of a) {
    const next = [0];
    for (let j = 1; j <= b.length; j++) {
      next.push(word === b[j - 1] ? row[j - 1]! + 1 : 0);
      best = Math.max(best, next[j]!);
    }
    row = next;
  }
  return best;
}

export function clamp(x: number, low = 0, high = 1): number {
  return Math.min(high, Math.max(low, x));
}
