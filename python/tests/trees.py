"""Trees for tests."""

from __future__ import annotations

import numpy as np
import torch

from stateset_agents_worker.tree import TokenTree


def random_tree(rng: np.random.Generator, nodes: int, longest: int, vocab: int = 64, roots: int = 2, shuffled: bool = True) -> TokenTree:
    """Parents before children, but not depth first: siblings and cousins come in any order."""
    parent = np.array([-1 if n < roots else int(rng.integers(0 if shuffled else n - 1, n)) for n in range(nodes)], dtype=np.int64)
    lengths = rng.integers(1, longest + 1, nodes)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tokens = rng.integers(0, vocab, start[-1])
    return TokenTree(tokens, start, parent, rng.random(start[-1]) < 0.7)


def arrays(tree: TokenTree) -> dict[str, torch.Tensor]:
    """As they come over the wire."""
    return {
        "tokens": torch.from_numpy(tree.tokens.astype(np.int32)),
        "nodeStart": torch.from_numpy(tree.start.astype(np.int32)),
        "nodeParent": torch.from_numpy(tree.parent.astype(np.int32)),
        "wanted": torch.from_numpy(tree.wanted.astype(np.uint8)),
    }


def path(tree: TokenTree, index: int) -> list[int]:
    """The tokens' indices from the root to this one."""
    node = int(np.searchsorted(tree.start, index, side="right")) - 1
    indices = list(range(tree.start[node], index + 1))
    while tree.parent[node] >= 0:
        node = int(tree.parent[node])
        indices = list(range(tree.start[node], tree.start[node + 1])) + indices
    return indices
