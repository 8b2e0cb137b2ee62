import { StatesetError } from "../error.ts";
import type { TokenTree } from "./policy.ts";

/** Refuses a malformed tree, tokens the model does not know, and paths longer than its context. */
export function checkTree(tree: TokenTree, vocabSize: number, contextLength: number): void {
  const { tokens, nodeStart, nodeParent, wanted } = tree;
  const invalid = (what: string) =>
    new StatesetError("INVALID_OPTION", `forward() got a malformed token tree: ${what}.`);
  const nodes = nodeParent.length;
  if (tokens.length === 0) throw invalid("it has no tokens");
  if (wanted.length !== tokens.length) throw invalid(`${tokens.length} tokens but ${wanted.length} entries in wanted`);
  if (nodeStart.length !== nodes + 1) throw invalid(`${nodes} nodes need ${nodes + 1} starts, not ${nodeStart.length}`);
  if (nodeStart[0] !== 0 || nodeStart[nodes] !== tokens.length) throw invalid("its nodes do not cover its tokens");
  const unknown = tokens.find((token) => token < 0 || token >= vocabSize);
  if (unknown !== undefined) throw invalid(`token ${unknown} is not in the vocabulary of ${vocabSize}`);
  /** Tokens from the root to the end of each node. */
  const depth = new Int32Array(nodes);
  for (let node = 0; node < nodes; node++) {
    const length = nodeStart[node + 1]! - nodeStart[node]!;
    const parent = nodeParent[node]!;
    if (length <= 0) throw invalid(`node ${node} is empty`);
    if (parent < -1 || parent >= node)
      throw invalid(`node ${node} has the parent ${parent}, which does not come before it`);
    depth[node] = length + (parent < 0 ? 0 : depth[parent]!);
    if (depth[node]! > contextLength) {
      throw new StatesetError(
        "CONTEXT_OVERFLOW",
        `A sequence of ${depth[node]} tokens is longer than the model's context of ${contextLength}.`,
        { hint: "Limit the length of conversations, or use a model with a longer context." },
      );
    }
  }
}
