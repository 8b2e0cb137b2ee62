/** What the chains of a group share, as a tree. */
import { buildTokenTree } from "../../../conversation/token-tree.ts";
import type { GroupData } from "../../api/index.ts";
import type { Spelling } from "../tokens/tokenizers.ts";
import type { Member } from "./member.ts";

const mostText = 2000;
/** A token is seldom longer; what is cut anyway need not be spelt. */
const mostSpelt = 2 * mostText;

/** Null where no tokens were kept. */
export function groupTree(members: readonly Member[], spelling: Spelling | null): GroupData["tree"] {
  const chains = members.flatMap(({ tokens }, member) =>
    tokens
      ? tokens.starts.map((from, c) => {
          const to = tokens.starts[c + 1] ?? tokens.tokens.length;
          return { member, tokens: tokens.tokens.subarray(from, to), learn: tokens.learn.subarray(from, to) };
        })
      : [],
  );
  if (chains.length === 0) return null;
  const { tree, positions } = buildTokenTree(chains);
  const { nodeStart, nodeParent } = tree;
  const passing = Array.from(nodeParent, () => new Set<number>());
  chains.forEach(({ member }, c) => {
    const places = positions[c]!;
    // A chain is one path: from its last token up to the root.
    if (places.length === 0) return;
    let node = nodeOf(nodeStart, places.at(-1)!);
    for (; node >= 0; node = nodeParent[node]!) passing[node]!.add(member);
  });
  return Array.from(nodeParent, (parent, n) => {
    const tokens = tree.tokens.subarray(nodeStart[n]!, nodeStart[n + 1]!);
    return {
      parent,
      tokens: tokens.length,
      text: textOf(tokens, spelling),
      members: [...passing[n]!].sort((a, b) => a - b),
    };
  });
}

function nodeOf(nodeStart: Int32Array, token: number): number {
  let [low, high] = [0, nodeStart.length - 1];
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (nodeStart[middle]! <= token) low = middle;
    else high = middle;
  }
  return low;
}

function textOf(tokens: Int32Array, spelling: Spelling | null): string {
  const shown = tokens.subarray(0, mostSpelt);
  const text = spelling ? spelling.text(shown) : [...shown].join(" ");
  if (text.length <= mostText && shown.length === tokens.length) return text;
  return `${text.slice(0, mostText).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
