/**
 * Sequences that share prefixes, as a forest. Node n holds tokens[nodeStart[n] … nodeStart[n+1]); its context is the path to its root.
 * Parents come before children; -1 is a root. Position of a token is its depth in tokens.
 */
export interface TokenTree {
  tokens: Int32Array;
  nodeStart: Int32Array;
  nodeParent: Int32Array;
  /** 1 on tokens whose log-prob (and entropy) is wanted. The first token of a root has none. */
  wanted: Uint8Array;
}

/** What the tree needs of a chain: tokens, and which of them need a log-prob. */
export interface TreeChain {
  tokens: Int32Array;
  learn: Uint8Array;
}

export interface MergedChains {
  tree: TokenTree;
  /** Per chain, per token: its index in `tree.tokens`. Tokens that chains share have the same index. */
  positions: Int32Array[];
  /** Per tree token: the index of the token before it on its path, -1 for the first token of a root. */
  predecessor: Int32Array;
}

/** Tokens [start, end) of a chain, shared by every chain that passes through. `start` is also the depth: a branch begins at the same one in all of them. */
interface Branch {
  tokens: Int32Array;
  start: number;
  end: number;
  children: Map<number, Branch>;
}

/** Chains by their common beginnings. Adding one takes time linear in its tokens. */
export class PrefixForest {
  readonly roots = new Map<number, Branch>();
  /** Distinct tokens in it. */
  size = 0;

  add(tokens: Int32Array): void {
    let level = this.roots;
    let i = 0;
    while (i < tokens.length) {
      const branch = level.get(tokens[i]!);
      if (!branch) {
        level.set(tokens[i]!, { tokens, start: i, end: tokens.length, children: new Map() });
        this.size += tokens.length - i;
        return;
      }
      const theirs = branch.tokens;
      while (i < tokens.length && i < branch.end && theirs[i] === tokens[i]) i++;
      if (i < branch.end) {
        if (i === tokens.length) return;
        split(branch, i);
      }
      level = branch.children;
    }
  }
}

function split(branch: Branch, at: number): void {
  const rest: Branch = { tokens: branch.tokens, start: at, end: branch.end, children: branch.children };
  branch.end = at;
  branch.children = new Map([[branch.tokens[at]!, rest]]);
}

/**
 * Merges chains that begin alike into a radix forest, so that a shared prefix is computed once.
 * Time and memory are linear in the number of tokens. The result depends on the chains and their order alone.
 */
export function buildTokenTree(chains: readonly TreeChain[]): MergedChains {
  const forest = new PrefixForest();
  for (const { tokens } of chains) forest.add(tokens);
  const { roots } = forest;
  const { branches, parents } = inOrder(roots);

  const nodeStart = new Int32Array(branches.length + 1);
  for (let n = 0; n < branches.length; n++) nodeStart[n + 1] = nodeStart[n]! + length(branches[n]!);
  const total = nodeStart[branches.length]!;
  const tokens = new Int32Array(total);
  const predecessor = new Int32Array(total);
  const nodeOf = new Map<Branch, number>();
  for (let n = 0; n < branches.length; n++) {
    const branch = branches[n]!;
    const at = nodeStart[n]!;
    nodeOf.set(branch, n);
    tokens.set(branch.tokens.subarray(branch.start, branch.end), at);
    const parent = parents[n]!;
    predecessor[at] = parent < 0 ? -1 : nodeStart[parent + 1]! - 1;
    for (let i = at + 1; i < nodeStart[n + 1]!; i++) predecessor[i] = i - 1;
  }

  const wanted = new Uint8Array(total);
  const positions = chains.map((chain) => {
    const position = new Int32Array(chain.tokens.length);
    let level = roots;
    for (let i = 0; i < position.length; ) {
      const branch = level.get(chain.tokens[i]!)!;
      const from = nodeStart[nodeOf.get(branch)!]!;
      const end = Math.min(position.length, i + length(branch));
      for (let k = 0; i < end; i++, k++) {
        position[i] = from + k;
        if (chain.learn[i] === 1 && predecessor[from + k]! >= 0) wanted[from + k] = 1;
      }
      level = branch.children;
    }
    return position;
  });
  return { tree: { tokens, nodeStart, nodeParent: Int32Array.from(parents), wanted }, positions, predecessor };
}

/** Depth first, children in the order they appeared: parents before children, and a path stays together in memory. */
function inOrder(roots: Map<number, Branch>): { branches: Branch[]; parents: number[] } {
  const branches: Branch[] = [];
  const parents: number[] = [];
  const stack: { branch: Branch; parent: number }[] = [];
  const push = (level: Map<number, Branch>, parent: number) => {
    for (const branch of [...level.values()].reverse()) stack.push({ branch, parent });
  };
  push(roots, -1);
  for (let top = stack.pop(); top; top = stack.pop()) {
    parents.push(top.parent);
    push(top.branch.children, branches.push(top.branch) - 1);
  }
  return { branches, parents };
}

function length(branch: Branch): number {
  return branch.end - branch.start;
}
