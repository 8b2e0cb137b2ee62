"""Memory that runs out in the midst of a pass of a real model: what is said, and that the next pass is as if nothing had been."""

from __future__ import annotations

import contextlib
import io
import unittest
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from stateset_agents_worker.ranks import Ranks
from stateset_agents_worker.turn import Arrays, Call, Hands, Outcome, Turn
from tests.models import CONFIGS, VOCAB, make, open_engine
from tests.trees import arrays, random_tree

torch.set_num_threads(1)


def no_memory(*_: Any) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


class MemoryTest(unittest.TestCase):
    def setUp(self) -> None:
        self.hands = Hands(Ranks(1, 0, torch.device("cpu")), lambda options, ranks: open_engine(**options, ranks=ranks))
        self.perform("open", {"model": make(CONFIGS["llama"])})
        rng = np.random.default_rng(3)
        self.tree = {name: tensor.numpy() for name, tensor in arrays(random_tree(rng, 4, 9, VOCAB)).items()}
        self.count = len(self.tree["tokens"])
        self.given = {"logprobs": rng.standard_normal(self.count).astype(np.float32)}

    def perform(self, op: str, options: dict[str, Any], given: Arrays | None = None) -> Outcome:
        with contextlib.redirect_stderr(io.StringIO()):
            return self.hands.perform(Turn(call=Call(op, options, given or {})))[1][0]

    def learn(self) -> tuple[list[float], list[torch.Tensor]]:
        """The log-probs of a pass, and the gradients it leaves behind."""
        self.perform("zeroGradients", {})
        made = self.perform("forward", {}, self.tree)
        self.assertIsNone(made.error)
        self.assertIsNone(self.perform("backward", {"pass": made.result["pass"]}, self.given).error)
        return made.arrays["logprobs"].tolist(), [g.clone() for g in self.hands.engine.masters.gradients()]

    @contextlib.contextmanager
    def lacking(self, register: str) -> Iterator[Callable[[], torch.Tensor | None]]:
        """The last layer finds no room. Yields what the first one made."""
        layers = self.hands.engine.model.trunk.layers
        held: list[weakref.ref[torch.Tensor]] = []

        def keep(_module: Any, _given: Any, out: Any) -> None:
            held.append(weakref.ref(out if torch.is_tensor(out) else out[0]))

        hooks = [layers[0].register_forward_hook(keep), getattr(layers[1], register)(no_memory)]
        try:
            yield lambda: held[0]()
        finally:
            for hook in hooks:
                hook.remove()

    def refused(self, outcome: Outcome, said: str) -> None:
        error = outcome.error
        assert error is not None
        self.assertEqual((error.code, outcome.fatal), ("OUT_OF_MEMORY", False))
        self.assertRegex(error.message, said + r" does not fit in memory; .* GiB were free .*2\.00 GiB")
        for lower in ("tokenBudget", "slots", "passesInFlight", "recompute"):
            self.assertIn(lower, error.hint)
        self.assertEqual(len(self.hands.engine.passes), 0)

    def test_a_forward_pass_that_does_not_fit_leaves_nothing(self) -> None:
        logprobs, gradients = self.learn()
        with self.lacking("register_forward_pre_hook") as activations:
            self.refused(self.perform("forward", {}, self.tree), f"forward of {self.count} tokens")
            self.assertIsNone(activations())
        self.same(logprobs, gradients)

    def test_a_backward_pass_that_does_not_fit_leaves_nothing(self) -> None:
        logprobs, gradients = self.learn()
        with self.lacking("register_full_backward_pre_hook") as activations:
            made = self.perform("forward", {}, self.tree)
            self.refused(self.perform("backward", {"pass": made.result["pass"]}, self.given), "backward")
            self.assertIsNone(activations())
        self.same(logprobs, gradients)

    def same(self, logprobs: list[float], gradients: list[torch.Tensor]) -> None:
        again, after = self.learn()
        self.assertEqual(again, logprobs)
        for one, other in zip(after, gradients):
            self.assertTrue(torch.equal(one, other))


if __name__ == "__main__":
    unittest.main()
