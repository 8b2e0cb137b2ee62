from __future__ import annotations

import unittest

import torch

from stateset_agents_worker import scores
from stateset_agents_worker.scores import Wanted, score

torch.set_num_threads(1)


class ScoresTest(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(1)
        before = scores.MOST_LOGITS["cpu"]
        # Pieces of a few rows, the last of them shorter.
        scores.MOST_LOGITS["cpu"] = 60 * 8
        self.addCleanup(scores.MOST_LOGITS.__setitem__, "cpu", before)

    def case(self, frozen: bool, bias: bool, temperature: float, entropy: bool, keep: bool, dtype: torch.dtype = torch.float64) -> None:
        rows = torch.tensor([0, 3, 3, 5, 6, 6, 6, 9, 1, 2, 4, 8, 7, 7, 0, 5, 3, 2, 9])
        tokens = torch.randint(0, 60, (len(rows),))
        leaves = []
        for _ in range(2):
            torch.manual_seed(2)
            hidden = torch.randn(10, 12, dtype=dtype, requires_grad=True)
            weight = torch.randn(60, 12, dtype=dtype, requires_grad=not frozen)
            b = torch.randn(60, dtype=dtype, requires_grad=not frozen) if bias else None
            leaves.append((hidden, weight, b))
        g, h = torch.randn(len(rows)), torch.randn(len(rows))
        hidden, weight, b = leaves[0]
        logprobs, entropies = score(hidden, weight, b, Wanted(rows, tokens, temperature, entropy, keep))
        torch.autograd.backward([logprobs, entropies], [g, h] if entropy else [g, torch.empty(0)])
        ours = [leaf.grad for leaf in leaves[0] if leaf is not None]

        hidden, weight, b = leaves[1]
        z = hidden[rows] @ weight.t()
        z = (z if b is None else z + b).float() / temperature
        log_p = torch.log_softmax(z, 1)
        plain = log_p.gather(1, tokens[:, None])[:, 0]
        spread = -(log_p.exp() * log_p).sum(1)
        self.assertLess((plain - logprobs).abs().max().item(), 1e-5)
        (plain @ g + (spread @ h if entropy else 0)).backward()
        if entropy:
            self.assertLess((spread - entropies).abs().max().item(), 1e-5)
        else:
            self.assertEqual(len(entropies), 0)
        for got, leaf in zip(ours, [leaf for leaf in leaves[1] if leaf is not None]):
            if leaf.grad is None:
                self.assertIsNone(got)
            else:
                self.assertLess(((got - leaf.grad).norm() / leaf.grad.norm()).item(), 1e-5)
        with torch.no_grad():
            again, _ = score(leaves[0][0], leaves[0][1], leaves[0][2], Wanted(rows, tokens, temperature, entropy))
        self.assertTrue(torch.equal(again, logprobs))

    def test_against_autograd(self) -> None:
        for frozen in (False, True):
            for bias in (False, True):
                for entropy in (False, True):
                    for keep in (False, True):
                        for temperature in (1.0, 0.7):
                            with self.subTest(frozen=frozen, bias=bias, entropy=entropy, keep=keep, temperature=temperature):
                                self.case(frozen, bias, temperature, entropy, keep, torch.float32)

    def test_nothing_wanted(self) -> None:
        hidden = torch.randn(4, 12, requires_grad=True)
        none = torch.empty(0, dtype=torch.long)
        for frozen in (False, True):
            weight = torch.randn(60, 12, requires_grad=not frozen)
            logprobs, _ = score(hidden, weight, None, Wanted(none, none, 1.0, False))
            self.assertEqual(logprobs.shape, (0,))
            torch.autograd.backward([logprobs], [torch.empty(0)])
            self.assertEqual(hidden.grad.abs().sum().item(), 0)


if __name__ == "__main__":
    unittest.main()
