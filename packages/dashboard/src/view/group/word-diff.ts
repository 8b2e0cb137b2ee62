/** Which words of two texts differ: the fewest of them, by Myers' O(ND) algorithm, up to a bound; beyond it, all between what both begin and end with. */
export interface Stretch {
  text: string;
  /** The other text does not have it here. */
  own: boolean;
}

export interface WordDiff {
  left: Stretch[];
  right: Stretch[];
  /** Words that differ, of both. */
  different: number;
}

/** Words that are inserted or deleted before it is no longer worth finding the fewest. */
const mostEdits = 1200;

export function wordDiff(left: string, right: string): WordDiff {
  const [a, b] = [wordsOf(left), wordsOf(right)];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const [ownA, ownB] = [new Uint8Array(a.length), new Uint8Array(b.length)];
  markEdits(a.slice(start, a.length - end), b.slice(start, b.length - end), ownA.subarray(start), ownB.subarray(start));
  const count = (words: string[], own: Uint8Array) =>
    words.filter((word, i) => own[i] === 1 && word.trim() !== "").length;
  return { left: stretches(a, ownA), right: stretches(b, ownB), different: count(a, ownA) + count(b, ownB) };
}

export function wordsOf(text: string): string[] {
  return text.match(/\s+|[\p{L}\p{M}\p{N}_']+|[^\s\p{L}\p{M}\p{N}_']/gu) ?? [];
}

/** Writes 1 where a word is in one of the two alone. */
function markEdits(a: readonly string[], b: readonly string[], ownA: Uint8Array, ownB: Uint8Array): void {
  const trace = editTrace(a, b);
  if (!trace) {
    ownA.fill(1, 0, a.length);
    ownB.fill(1, 0, b.length);
    return;
  }
  let [x, y] = [a.length, b.length];
  for (let edits = trace.length - 1; edits > 0; edits--) {
    const before = trace[edits - 1]!;
    const k = x - y;
    const down = k === -edits || (k !== edits && before[k - 1 + edits]! < before[k + 1 + edits]!);
    const from = down ? k + 1 : k - 1;
    const fromX = before[from + edits]!;
    const fromY = fromX - from;
    if (down) ownB[fromY] = 1;
    else ownA[fromX] = 1;
    [x, y] = [fromX, fromY];
  }
}

/** For each number of edits how far every diagonal k came, at index k + edits + 1; undefined: too many. */
function editTrace(a: readonly string[], b: readonly string[]): Int32Array[] | undefined {
  const trace: Int32Array[] = [];
  for (let edits = 0; edits <= Math.min(mostEdits, a.length + b.length); edits++) {
    const before = trace[edits - 1];
    const furthest = new Int32Array(2 * edits + 3).fill(-1);
    trace.push(furthest);
    for (let k = -edits; k <= edits; k += 2) {
      let x = 0;
      if (before) {
        const [right, down] = [before[k - 1 + edits] ?? -1, before[k + 1 + edits] ?? -1];
        x = k === -edits || (k !== edits && right < down) ? down : right + 1;
      }
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x++;
        y++;
      }
      furthest[k + edits + 1] = x;
      if (x >= a.length && y >= b.length) return trace;
    }
  }
  return undefined;
}

function stretches(words: readonly string[], own: Uint8Array): Stretch[] {
  const made: Stretch[] = [];
  words.forEach((text, i) => {
    const last = made.at(-1);
    if (last && last.own === (own[i] === 1)) last.text += text;
    else made.push({ text, own: own[i] === 1 });
  });
  return made;
}

/** For the eye: a space between two words that are marked is marked with them. */
export function joinMarks(list: readonly Stretch[]): Stretch[] {
  const joined: Stretch[] = [];
  list.forEach(({ text, own }, i) => {
    const between = !own && /^[ \t]+$/.test(text) && list[i - 1]?.own === true && list[i + 1]?.own === true;
    const last = joined.at(-1);
    if (last && last.own === (own || between)) last.text += text;
    else joined.push({ text, own: own || between });
  });
  return joined;
}
