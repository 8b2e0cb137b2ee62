from __future__ import annotations

import unittest

import numpy as np
import torch

from stateset_agents_worker.errors import WorkerError
from stateset_agents_worker.tree import BLOCK, TokenTree, check_tree, deal, idle_layout, lay_out, padded
from stateset_agents_worker.tree_attention import block_mask, block_table, dense_mask
from tests.trees import path, random_tree

torch.set_num_threads(1)


class LayoutTest(unittest.TestCase):
    def test_sees_exactly_its_path(self) -> None:
        rng = np.random.default_rng(1)
        for _ in range(30):
            tree = random_tree(rng, nodes=int(rng.integers(2, 12)), longest=6)
            layout = lay_out(tree, range(len(tree.parent)))
            self.assertEqual(sorted(layout.source.tolist()), list(range(len(tree.tokens))))
            mask = dense_mask(torch.from_numpy(layout.end), torch.from_numpy(layout.depth), None).numpy()
            foretold = dict(zip(layout.wanted.tolist(), layout.foretold_by.tolist()))
            for row in range(layout.count):
                own = path(tree, int(layout.source[row]))
                self.assertEqual(layout.source[np.flatnonzero(mask[row])].tolist(), own)
                self.assertEqual(layout.depth[row], len(own) - 1)
                wanted = bool(tree.wanted[layout.source[row]]) and len(own) > 1
                self.assertEqual(row in foretold, wanted)
                if wanted:
                    self.assertEqual(layout.source[foretold[row]], own[-2])
            for row in range(layout.count, layout.size):
                self.assertEqual(np.flatnonzero(mask[row]).tolist(), [row])
            exact = lay_out(tree, range(len(tree.parent)), pad=False)
            self.assertEqual(exact.size, layout.count)
            self.assertEqual(exact.end.tolist(), layout.end[: layout.count].tolist())

    def test_deals_whole_roots_evenly(self) -> None:
        rng = np.random.default_rng(2)
        tree = random_tree(rng, nodes=40, longest=9, roots=10)
        dealt = deal(tree, 3)
        self.assertEqual(sorted(sum(dealt, [])), list(range(40)))
        loads = []
        for nodes in dealt:
            self.assertTrue(all(tree.parent[n] < 0 or tree.parent[n] in nodes for n in nodes))
            loads.append(sum(tree.start[n + 1] - tree.start[n] for n in nodes))
        roots = np.zeros(40)
        for n in range(40):
            top = n
            while tree.parent[top] >= 0:
                top = tree.parent[top]
            roots[top] += tree.start[n + 1] - tree.start[n]
        self.assertLessEqual(max(loads) - min(loads), roots.max())

    def test_sizes_are_few(self) -> None:
        sizes = {padded(n) for n in range(1, 33_000)}
        self.assertTrue(all(size % BLOCK == 0 for size in sizes))
        self.assertLessEqual(len(sizes), 18)
        self.assertTrue(all(padded(n) >= n and padded(n) <= max(BLOCK, 1.5 * n + BLOCK) for n in range(1, 33_000)))
        self.assertEqual(padded(16_384), 16_384)
        self.assertEqual(idle_layout().size, BLOCK)

    def test_refuses_what_is_malformed(self) -> None:
        good = dict(tokens=np.array([1, 2, 3]), start=np.array([0, 2, 3]), parent=np.array([-1, 0]), wanted=np.ones(3, bool))
        check_tree(TokenTree(**good), 4, 3)
        for change, code in [
            (dict(parent=np.array([-1, 1])), "INVALID_OPTION"),
            (dict(parent=np.array([-2, 0])), "INVALID_OPTION"),
            (dict(start=np.array([0, 3, 3])), "INVALID_OPTION"),
            (dict(start=np.array([0, 2, 4])), "INVALID_OPTION"),
            (dict(wanted=np.ones(2, bool)), "INVALID_OPTION"),
            (dict(tokens=np.array([1, 2, 4])), "INVALID_OPTION"),
            (dict(tokens=np.array([1, -2, 3])), "INVALID_OPTION"),
        ]:
            with self.assertRaises(WorkerError) as caught:
                check_tree(TokenTree(**{**good, **change}), 4, 3)
            self.assertEqual(caught.exception.code, code)
        with self.assertRaises(WorkerError) as caught:
            check_tree(TokenTree(**good), 4, 2)
        self.assertEqual(caught.exception.code, "CONTEXT_OVERFLOW")


class BlockMaskTest(unittest.TestCase):
    """The closed form against the dense mask, block by block."""

    def check(self, tree: TokenTree, window: int | None) -> None:
        layout = lay_out(tree, range(len(tree.parent)))
        end, depth = torch.from_numpy(layout.end), torch.from_numpy(layout.depth)
        dense = dense_mask(end, depth, window)
        tiles = dense.view(layout.size // BLOCK, BLOCK, layout.size // BLOCK, BLOCK).permute(0, 2, 1, 3).flatten(2)
        blocks = block_table(layout, window)
        partial, full = torch.from_numpy(blocks.partial), torch.from_numpy(blocks.full)
        self.assertFalse((partial & full).any())
        self.assertTrue((tiles.any(2) <= (partial | full)).all(), "a block that is seen is left out")
        self.assertTrue((full <= tiles.all(2)).all(), "a block counts as full and is not")
        if window is None:
            self.assertTrue(torch.equal(tiles.any(2), partial | full))
        self.assertTrue(torch.equal(tiles.all(2), full))
        mask = block_mask(layout, window, end, depth)
        of_keys = torch.zeros_like(partial)
        of_queries = torch.zeros_like(partial)
        for n in range(len(partial)):
            for table, counts, indices in [
                (of_keys[n], mask.kv_num_blocks, mask.kv_indices),
                (of_keys[n], mask.full_kv_num_blocks, mask.full_kv_indices),
                (of_queries[n], mask.q_num_blocks, mask.q_indices),
                (of_queries[n], mask.full_q_num_blocks, mask.full_q_indices),
            ]:
                table[indices[0, 0, n, : counts[0, 0, n]].long()] = True
        self.assertTrue(torch.equal(of_keys, partial | full))
        self.assertTrue(torch.equal(of_queries, (partial | full).T))
        self.assertTrue(torch.equal(mask.to_dense()[0, 0].bool(), partial | full))
        row = torch.arange(layout.size)
        self.assertTrue(torch.equal(mask.mask_mod(None, None, row[:, None], row[None, :]), dense))

    def test_against_the_dense_mask(self) -> None:
        rng = np.random.default_rng(3)
        for case in range(24):
            tree = random_tree(rng, nodes=int(rng.integers(3, 14)), longest=[40, 200, 400][case % 3], shuffled=case % 2 == 0)
            for window in (None, 7, 150):
                self.check(tree, window)

    def test_one_long_path(self) -> None:
        count = 5 * BLOCK + 3
        tree = TokenTree(np.zeros(count, np.int64), np.array([0, count]), np.array([-1]), np.ones(count, bool))
        for window in (None, 1, BLOCK, 2 * BLOCK + 5):
            self.check(tree, window)
        self.assertGreater(block_table(lay_out(tree, [0]), None).full.sum(), 0)


if __name__ == "__main__":
    unittest.main()
