/** Somebody else may have written it, and as long as he likes. */
const longestName = 100;

/** The candidate closest to `name` by edit distance (case and separators ignored), or undefined when none is near. */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  // Nothing is near to what no name is as long as; and each letter of it would cost time.
  if (name.length > longestName) return undefined;
  const plain = (text: string) => text.toLowerCase().replace(/[-_ ]/g, "");
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.floor(name.length / 3)) + 1;
  for (const candidate of candidates) {
    // `maxTokens` is meant for `sampling.maxTokens` more than for `maxTurns`.
    const own = candidate.slice(candidate.lastIndexOf(".") + 1);
    // Of two as near, the one that only goes on is meant.
    const distance = Math.min(
      ...[candidate, own].map(
        (text) => editDistance(plain(name), plain(text)) - (plain(text).startsWith(plain(name)) ? 0.5 : 0),
      ),
    );
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** `Did you mean "x"?`, or the list of what is valid when nothing is near. */
export function didYouMean(name: string, candidates: readonly string[]): string {
  const near = nearest(name, candidates);
  return near === undefined
    ? `Valid: ${candidates.filter((one) => !one.includes(".")).join(", ")}.`
    : `Did you mean "${near}"?`;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitute = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(substitute, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
