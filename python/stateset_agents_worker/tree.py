"""Token trees: checked, dealt to ranks by their roots, and laid out depth first, where attention is `k <= q < end[k]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .errors import WorkerError

Ints = NDArray[np.int64]

#: Tokens in a block of FlexAttention; every pass is a multiple of it.
BLOCK = 128


@dataclass(frozen=True)
class TokenTree:
    """As the contract has it: node n holds tokens[start[n]:start[n + 1]]; parents come before children."""

    tokens: Ints
    start: Ints
    parent: Ints
    wanted: NDArray[np.bool_]


@dataclass(frozen=True)
class Layout:
    """What one rank computes of a tree. Rows are tokens, depth first; those after `count` are padding."""

    count: int
    tokens: Ints
    #: The position of each token: how many come before it on its path.
    depth: Ints
    #: One past the last row of each token's subtree.
    end: Ints
    #: Where each row is in the caller's tree; as long as `count`.
    source: Ints
    #: Of each token that is wanted: its row, and the row whose hidden state foretells it.
    wanted: Ints
    foretold_by: Ints

    @property
    def size(self) -> int:
        return len(self.tokens)


def read_tree(arrays: dict[str, Tensor], vocab: int, context: int) -> TokenTree:
    """Refuses a malformed tree, tokens the model does not know, and paths longer than its context."""
    for name in ("tokens", "nodeStart", "nodeParent", "wanted"):
        if name not in arrays:
            raise WorkerError("INVALID_OPTION", f"The token tree lacks {name}.")
    numbers = {name: arrays[name].numpy().astype(np.int64).reshape(-1) for name in ("tokens", "nodeStart", "nodeParent")}
    tree = TokenTree(numbers["tokens"], numbers["nodeStart"], numbers["nodeParent"], arrays["wanted"].numpy().reshape(-1) != 0)
    check_tree(tree, vocab, context)
    return tree


def check_tree(tree: TokenTree, vocab: int, context: int) -> None:
    nodes = len(tree.parent)
    if len(tree.tokens) == 0:
        raise _malformed("it has no tokens")
    if len(tree.wanted) != len(tree.tokens):
        raise _malformed(f"{len(tree.tokens)} tokens but {len(tree.wanted)} entries in wanted")
    if len(tree.start) != nodes + 1:
        raise _malformed(f"{nodes} nodes need {nodes + 1} starts, not {len(tree.start)}")
    if tree.start[0] != 0 or tree.start[-1] != len(tree.tokens):
        raise _malformed("its nodes do not cover its tokens")
    if (np.diff(tree.start) <= 0).any():
        raise _malformed(f"node {int(np.argmax(np.diff(tree.start) <= 0))} is empty")
    early = (tree.parent < -1) | (tree.parent >= np.arange(nodes))
    if early.any():
        node = int(np.argmax(early))
        raise _malformed(f"node {node} has the parent {tree.parent[node]}, which does not come before it")
    unknown = (tree.tokens < 0) | (tree.tokens >= vocab)
    if unknown.any():
        raise _malformed(f"token {tree.tokens[int(np.argmax(unknown))]} is not in the vocabulary of {vocab}")
    longest = int((_before(tree) + np.diff(tree.start)).max())
    if longest > context:
        raise WorkerError(
            "CONTEXT_OVERFLOW",
            f"A sequence of {longest} tokens is longer than the model's context of {context}.",
            "Limit the length of conversations, or use a model with a longer context.",
        )


def _malformed(what: str) -> WorkerError:
    return WorkerError("INVALID_OPTION", f"forward() got a malformed token tree: {what}.")


def _before(tree: TokenTree) -> Ints:
    """Tokens on the path before each node."""
    lengths = np.diff(tree.start)
    before = np.zeros(len(tree.parent), dtype=np.int64)
    for node, parent in enumerate(tree.parent):
        if parent >= 0:
            before[node] = before[parent] + lengths[parent]
    return before


def deal(tree: TokenTree, world: int) -> list[list[int]]:
    """The nodes of each rank: roots go whole, the largest first, to whoever has the fewest tokens."""
    root = np.arange(len(tree.parent))
    for node, parent in enumerate(tree.parent):
        if parent >= 0:
            root[node] = root[parent]
    if world == 1:
        return [list(range(len(root)))]
    tokens = np.bincount(root, weights=np.diff(tree.start), minlength=len(root))
    rank_of = np.zeros(len(root), dtype=np.int64)
    load = np.zeros(world)
    for at in np.argsort(-tokens, kind="stable"):
        if tokens[at] == 0:
            break
        rank = int(np.argmin(load))
        rank_of[at] = rank
        load[rank] += tokens[at]
    mine = rank_of[root]
    return [np.flatnonzero(mine == rank).tolist() for rank in range(world)]


def lay_out(tree: TokenTree, nodes: Sequence[int], pad: bool = True) -> Layout:
    """`nodes` are whole trees, in the caller's order. Padding is tokens that nobody sees and that see themselves alone."""
    children: dict[int, list[int]] = {}
    for node in nodes:
        children.setdefault(int(tree.parent[node]), []).append(node)
    order: list[int] = []
    stack = children.get(-1, [])[::-1]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(children.get(node, [])[::-1])

    before = _before(tree)
    at = np.asarray(order, dtype=np.int64)
    lengths = np.diff(tree.start)[at]
    count = int(lengths.sum())
    start = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    place = {node: i for i, node in enumerate(order)}
    parent = np.asarray([place.get(int(tree.parent[node]), -1) for node in order], dtype=np.int64)
    subtree = lengths.copy()
    for i in range(len(order) - 1, -1, -1):
        if parent[i] >= 0:
            subtree[parent[i]] += subtree[i]

    offset = np.arange(count) - np.repeat(start, lengths)
    source = np.repeat(tree.start[at], lengths) + offset
    previous = np.arange(count) - 1
    previous[start] = np.where(parent >= 0, start[parent] + lengths[parent] - 1, -1)
    wanted = np.flatnonzero(tree.wanted[source] & (previous >= 0))
    size = padded(count) if pad else count
    rows = np.arange(size)
    tokens, depth, end = np.zeros(size, np.int64), np.zeros(size, np.int64), rows + 1
    tokens[:count] = tree.tokens[source]
    depth[:count] = np.repeat(before[at], lengths) + offset
    end[:count] = np.repeat(start + subtree, lengths)
    return Layout(count, tokens, depth, end, source, wanted, previous[wanted])


def idle_layout(pad: bool = True) -> Layout:
    """For a rank without work, which must take part in what the others do together."""
    one = TokenTree(np.zeros(2, np.int64), np.array([0, 2]), np.array([-1]), np.array([False, True]))
    return lay_out(one, [0], pad)


def padded(count: int) -> int:
    """Few sizes, since each is compiled for: multiples of a block to 512, then two to an octave."""
    size = max(BLOCK, -(-count // BLOCK) * BLOCK)
    if size <= 4 * BLOCK:
        return size
    step = 1 << ((size - 1).bit_length() - 2)
    return -(-size // step) * step
