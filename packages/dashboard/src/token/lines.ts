/** Tokens laid out in lines of about the same width, so that only those that are seen need to be drawn. */
import type { Range } from "./reply-ranges.ts";
import type { Shown } from "./spelling.ts";

export interface Lines {
  /** Tokens [from[i], to[i]) stand in line i; an empty line has none. */
  from: Int32Array;
  to: Int32Array;
}

/** `hidden` tokens are within their lines and take no room. A line ends at a line feed, or before the last word that does not fit. */
export function layLines(
  [first, end]: Range,
  columns: number,
  shown: (token: number) => Shown,
  hidden: (token: number) => boolean = () => false,
): Lines {
  const from: number[] = [];
  const to: number[] = [];
  let start = first;
  let width = 0;
  /** The last token at which the line may be broken, and the width before it. */
  let word = first;
  let before = 0;
  const close = (at: number) => {
    from.push(start);
    to.push(at);
    start = at;
  };
  for (let token = first; token < end; token++) {
    if (hidden(token)) continue;
    const { columns: own, breaks, opens } = shown(token);
    if (opens) [word, before] = [token, width];
    if (width > 0 && width + own > columns) {
      const at = word > start ? word : token;
      width -= at === word ? before : width;
      close(at);
    }
    width += own;
    if (breaks === 0) continue;
    close(token + 1);
    // An empty line or two are part of how a text looks, a thousand are not.
    for (let extra = 1; extra < Math.min(breaks, 3); extra++) close(token + 1);
    width = 0;
  }
  if (start < end || from.length === 0) close(end);
  return { from: Int32Array.from(from), to: Int32Array.from(to) };
}

/** The line a token stands in. */
export function lineOf({ from, to }: Lines, token: number): number {
  let [low, high] = [0, from.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (to[middle]! > token) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Where a key leads from a token; undefined: nowhere. */
export function neighbour(
  key: string,
  at: number,
  lines: Lines,
  [from, to]: Range,
  hidden: (token: number) => boolean,
): number | undefined {
  const along = (token: number, by: 1 | -1): number | undefined => {
    let next = token;
    while (next >= from && next < to && hidden(next)) next += by;
    return next >= from && next < to ? next : undefined;
  };
  const line = lineOf(lines, at);
  const [first, end] = [lines.from[line]!, lines.to[line]!];
  switch (key) {
    case "ArrowRight":
      return along(at + 1, 1);
    case "ArrowLeft":
      return along(at - 1, -1);
    case "Home":
      return along(first, 1);
    case "End":
      return along(end - 1, -1);
    case "ArrowDown":
    case "ArrowUp": {
      const by = key === "ArrowDown" ? 1 : -1;
      let other = line + by;
      while (other >= 0 && other < lines.from.length && lines.from[other] === lines.to[other]) other += by;
      const [start, stop] = [lines.from[other], lines.to[other]];
      if (start === undefined || stop === undefined) return undefined;
      return along(Math.min(stop - 1, start + (at - first)), by);
    }
    default:
      return undefined;
  }
}
