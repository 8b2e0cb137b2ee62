import { escapeMark } from "./marks.ts";

/** A token that only templates and policies make: every added token, special or not. */
export interface ControlToken {
  id: number;
  text: string;
}

/**
 * Cuts marked text at the tokens spelt outside foreign text. The pieces between them keep their marks. The leftmost spelling
 * counts, and of two that begin together the longer one, as in tokenizers.
 */
export function createSplitter<T extends { text: string }>(tokens: readonly T[]): (marked: string) => (string | T)[] {
  const byText = new Map(tokens.map((token) => [token.text, token]));
  const spellings = [...byText.keys()].sort((a, b) => b.length - a.length).map(escapeRegExp);
  // An escaped character is passed over whole; the empty class matches nothing.
  const pattern = new RegExp(`${escapeMark}[^]|(${spellings.join("|") || "[]"})`, "gu");
  return (marked) => {
    const parts: (string | T)[] = [];
    let from = 0;
    for (const match of marked.matchAll(pattern)) {
      if (match[1] === undefined) continue;
      if (match.index > from) parts.push(marked.slice(from, match.index));
      parts.push(byText.get(match[1])!);
      from = match.index + match[1].length;
    }
    if (from < marked.length) parts.push(marked.slice(from));
    return parts;
  };
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}
