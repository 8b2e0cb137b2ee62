from __future__ import annotations

import unittest
from unittest.mock import patch

import torch
from torch import Tensor, nn

from stateset_agents_worker import prefill_attention
from stateset_agents_worker.kv_cache import KvCache, KvShape, Size
from stateset_agents_worker.prefill_attention import Piece, Prefill
from tests.tiny import make_model, make_sampler, prompt_of, run

HEADS, KEY_HEADS, DIM = 6, 2, 8
# Prompts that begin, go on after much and after little, of one token, and one that is much longer than the others.
PIECES = [Piece(3, 0, 5), Piece(0, 0, 70), Piece(1, 40, 3), Piece(2, 1, 1), Piece(4, 17, 33), Piece(5, 0, 1), Piece(6, 90, 30)]


def alone(query: Tensor, keys: Tensor, values: Tensor, piece: Piece, window: int | None) -> Tensor:
    """[heads, count, D], one query after the other."""
    rows = []
    for at in range(piece.count):
        end = piece.start + at + 1
        begin = 0 if window is None else max(0, end - window)
        group = HEADS // KEY_HEADS
        key = keys[piece.slot, :, begin:end].repeat_interleave(group, 0)
        value = values[piece.slot, :, begin:end].repeat_interleave(group, 0)
        weights = torch.softmax((key @ query[:, at, :, None])[..., 0] * 0.3, -1)
        rows.append((weights[:, None] @ value)[:, 0])
    return torch.stack(rows, 1)


class Batches(unittest.TestCase):
    def attend(self, window: int | None) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(7)
        cache = KvCache(KvShape(2, KEY_HEADS, DIM, torch.float32, torch.device("cpu")))
        cache.remake(Size(8, 128), keep=False)
        cache._data.copy_(torch.randn(cache._data.shape, generator=generator))
        tokens = sum(piece.count for piece in PIECES)
        query, key, value = (torch.randn(1, h, tokens, DIM, generator=generator) for h in (HEADS, KEY_HEADS, KEY_HEADS))
        module = nn.Module()
        module.layer_idx = 1  # type: ignore[assignment]
        got = Prefill(cache, PIECES)(module, query, key, value, 0.3, window, 0.0)
        keys, values, at, wanted = cache.keys(1), cache.values(1), 0, []
        for piece in PIECES:
            here = slice(at, at + piece.count)
            self.assertTrue(torch.equal(keys[piece.slot, :, piece.start : piece.end], key[0, :, here]))
            self.assertTrue(torch.equal(values[piece.slot, :, piece.start : piece.end], value[0, :, here]))
            wanted.append(alone(query[0, :, here], keys, values, piece, window))
            at += piece.count
        return got, torch.cat(wanted, 1).transpose(0, 1)[None]

    def test_pieces_of_all_sizes_see_what_each_would_see_alone(self) -> None:
        for window in (None, 20, 200):
            for most in (prefill_attention.MASK, 1 << 10):
                with self.subTest(window=window, most=most), patch.object(prefill_attention, "MASK", most):
                    got, wanted = self.attend(window)
                    self.assertEqual(got.shape, wanted.shape)
                    self.assertLess((got - wanted).abs().max().item(), 1e-5)


class Patience(unittest.TestCase):
    def test_prompts_that_come_one_by_one_are_computed_together_and_say_the_same(self) -> None:
        model = make_model("qwen3")

        def sampled(patience: int) -> tuple[dict, int]:
            sampler = make_sampler(model, slots=16)
            sampler._patience = patience
            for id in range(8):
                sampler.add(id, {"maxTokens": 40, "temperature": 0}, prompt_of(9, id))
            sampler.step()
            outs, passes = [], 0
            with patch("stateset_agents_worker.sampler.Prefill", wraps=Prefill) as made:
                for id in range(8, 14):
                    sampler.add(id, {"maxTokens": 10, "temperature": 0}, prompt_of(9, id))
                    outs += sampler.step()
                passes = made.call_count
                done = run(sampler)
            self.assertEqual(outs, [])
            return {id: reply.tokens for id, reply in done.items()}, passes

        eager, patient = sampled(0), sampled(5)
        self.assertEqual(eager[0], patient[0])
        self.assertEqual(len(patient[0]), 14)
        self.assertEqual(eager[1], 6)
        # Two are a quarter of the eight that are drawn, three more than a quarter of the ten; the last one waits.
        self.assertEqual(patient[1], 2)

    def test_a_prompt_waits_once_and_not_for_each_of_its_pieces(self) -> None:
        sampler = make_sampler(make_model("qwen3"), slots=16)
        sampler._patience, sampler._pieces = 5, (8, 64)
        for id in range(8):
            sampler.add(id, {"maxTokens": 60, "temperature": 0}, prompt_of(5, id))
        sampler.step()
        sampler.add(8, {"maxTokens": 10, "temperature": 0}, prompt_of(33, 8))
        computed = []
        for _ in range(10):
            before = sampler.computed_tokens
            sampler.step()
            computed.append(sampler.computed_tokens - before)
        self.assertEqual(computed, [0] * 5 + [8] * 4 + [0])
