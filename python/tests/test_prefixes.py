from __future__ import annotations

import random
import unittest

import numpy as np
import torch

from stateset_agents_worker.kv_cache import KvCache, KvShape, Size, rounded_length
from stateset_agents_worker.prefixes import Prefixes
from stateset_agents_worker.room import Room
from tests.tiny import make_model, make_sampler, prompt_of, run, sample_one


def joined(*parts: torch.Tensor | list[int]) -> torch.Tensor:
    return torch.cat([torch.as_tensor(part, dtype=torch.int32) for part in parts])


class Sharing(unittest.TestCase):
    def setUp(self) -> None:
        self.model = make_model("qwen3")

        self.other = make_sampler(self.model, slots=1)

    def alone(self, prompt: torch.Tensor, **options: object) -> list[int]:
        self.other.forget()
        return sample_one(self.other, prompt, **options).tokens

    def test_the_prompt_of_a_group_is_computed_once(self) -> None:
        sampler = make_sampler(self.model)
        prompt = prompt_of(50, 1)
        for id in range(8):
            sampler.add(id, {"maxTokens": 12, "seed": id}, prompt)
        done = run(sampler)
        # All but the last token, which every reply runs in its first step.
        self.assertEqual(sampler.computed_tokens, 49)
        self.assertEqual(sorted(one.result["cached"] for one in done.values()), [0] + 7 * [49])
        self.assertEqual(sampler.stats()["cachedTokens"], 7 * 49)
        self.assertEqual(sampler.stats()["promptTokens"], 8 * 50)
        for id in range(8):
            self.assertEqual(done[id].tokens, self.alone(prompt, maxTokens=12, seed=id))

    def test_groups_share_what_they_have_in_common_also_with_fewer_slots(self) -> None:
        sampler = make_sampler(self.model, slots=3)
        start = prompt_of(40, 1)
        prompts = [joined(start, prompt_of(10, 10 + group)) for group in range(3)]
        for id in range(12):
            sampler.add(id, {"maxTokens": 6, "seed": id}, prompts[id % 3])
        done = run(sampler)
        self.assertLess(sampler.computed_tokens, 49 + 11 * 10)
        for id in range(12):
            self.assertEqual(done[id].tokens, self.alone(prompts[id % 3], maxTokens=6, seed=id))

    def test_a_conversation_goes_on_from_what_was_computed(self) -> None:
        sampler = make_sampler(self.model)
        first = prompt_of(20, 1)
        reply = sample_one(sampler, first, maxTokens=10)
        second = joined(first, reply.tokens, prompt_of(5, 2))
        done = sample_one(sampler, second, maxTokens=10)
        # The last token of the reply was never run.
        self.assertEqual(done.result["cached"], 29)
        self.assertEqual(done.tokens, self.alone(second, maxTokens=10))

    def test_other_namespaces_neither_use_nor_give(self) -> None:
        sampler = make_sampler(self.model)
        prompt = prompt_of(30, 1)
        for namespace, cached in (("a", 0), ("b", 0), ("", 0), ("a", 29), ("b", 29), ("", 29)):
            self.assertEqual(sample_one(sampler, prompt, namespace=namespace).result["cached"], cached)
        together = make_sampler(self.model)
        for id, namespace in enumerate(("a", "b", "a", "b")):
            together.add(id, {"maxTokens": 3, "namespace": namespace}, prompt)
        together._pieces = (8, 8)
        together.step()
        # Nobody waits for what another namespace computes.
        self.assertEqual(together.stats()["running"], 2)
        run(together)
        self.assertEqual(together.computed_tokens, 2 * 29)

    def test_nothing_is_kept_of_weights_that_changed(self) -> None:
        sampler = make_sampler(self.model)
        prompt = prompt_of(30, 1)
        sample_one(sampler, prompt)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.mul_(1.1)
        sampler.forget()
        done = sample_one(sampler, prompt)
        self.assertEqual(done.result["cached"], 0)
        self.assertEqual(done.tokens, self.alone(prompt))

    def test_a_cancelled_prompt_is_taken_up_where_it_was_left(self) -> None:
        sampler = make_sampler(self.model)
        sampler._pieces = (16, 16)
        prompt = prompt_of(60, 1)
        sampler.add(1, {"maxTokens": 4}, prompt)
        sampler.add(2, {"maxTokens": 4, "seed": 2}, prompt)
        sampler.step()
        sampler.cancel(1)
        done = run(sampler)
        self.assertEqual((done[1].finish, done[2].result["cached"]), ("aborted", 16))
        self.assertEqual(done[2].tokens, self.alone(prompt, maxTokens=4, seed=2))

    def test_replies_survive_every_change_of_the_cache(self) -> None:
        """Requests of all lengths come and go in random order, in a cache that has room for few of them."""
        for seed, cache_tokens in enumerate((1, 2048, 8192)):
            chance = random.Random(seed)
            sampler = make_sampler(self.model, slots=16, cache_tokens=cache_tokens)
            wanted: dict[int, list[int]] = {}
            done: dict = {}
            cancelled: set[int] = set()
            starts = [prompt_of(chance.randint(1, 90), start) for start in range(4)]
            while len(done) < 20:
                if len(wanted) < 20 and chance.random() < 0.4:
                    for _ in range(chance.randint(1, 6)):
                        id = len(wanted)
                        prompt = joined(chance.choice(starts), prompt_of(chance.randint(1, 60), id))
                        options = {"maxTokens": chance.randint(1, 50), "seed": id, "namespace": chance.choice("ab")}
                        wanted[id] = self.alone(prompt, **options)
                        sampler.add(id, options, prompt)
                        if len(wanted) == 20:
                            break
                if wanted and chance.random() < 0.02:
                    id = chance.randrange(len(wanted))
                    if id not in done:
                        sampler.cancel(id)
                        cancelled.add(id)
                for out in sampler.step():
                    done[out.id] = out
                slots = sampler.stats()
                self.assertLessEqual(slots["running"], slots["slots"])
            self.assertTrue(sampler.idle)
            for id, tokens in wanted.items():
                drawn = done[id].arrays["tokens"].tolist()
                if id not in cancelled:
                    self.assertEqual(len(drawn), len(tokens))
                self.assertEqual(drawn, tokens[: len(drawn)])


class Table(unittest.TestCase):
    def test_one_look_finds_what_comparing_with_each_slot_finds(self) -> None:
        """Slots are taken, grow, end, trade places and are more or fewer, in random order."""
        chance = random.Random(3)
        table, held = Prefixes(), [None] * 6
        table.resize(6, keep=False)
        starts = [[chance.randrange(3) for _ in range(chance.randint(1, 200))] for _ in range(3)]

        def draw() -> np.ndarray:
            start = chance.choice(starts)
            return np.array(start[: chance.randint(0, len(start))] + [chance.randrange(3) for _ in range(chance.randint(1, 9))])

        def common(a: np.ndarray, b: np.ndarray) -> int:
            return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))

        found = coming = 0
        for _ in range(2000):
            slot, other, act = chance.randrange(len(held)), chance.randrange(len(held)), chance.random()
            if act < 0.4:
                tokens, namespace = draw(), chance.choice("ab")
                held[slot] = [namespace, tokens, chance.randint(0, len(tokens))]
                table.hold(slot, *held[slot])
            elif act < 0.5 and held[slot]:
                held[slot][2] = chance.randint(held[slot][2], len(held[slot][1]))
                table.grown(slot, held[slot][2])
            elif act < 0.55:
                held[slot] = None
                table.drop(slot)
            elif act < 0.65:
                held[slot], held[other] = held[other], held[slot]
                table.swap(slot, other)
            elif act < 0.67:
                size, keep = chance.randint(2, 9), chance.random() < 0.8
                held = (held[:size] if keep else []) + [None] * (size - (min(size, len(held)) if keep else 0))
                table.resize(size, keep)
            asked, namespace = draw(), chance.choice("ab")
            mine = [one if one and one[0] == namespace else None for one in held]
            there = [min(common(one[1], asked), one[2]) if one else 0 for one in mine]
            soon = [min(common(one[1], asked), len(one[1]) - 1) if one and one[2] < len(one[1]) - 1 else 0 for one in mine]
            look = table.look(namespace, asked)
            self.assertEqual(look.found.count if look.found else 0, max(there))
            self.assertEqual(look.coming.count if look.coming else 0, max(soon))
            if look.found:
                self.assertEqual(there[look.found.slot], max(there))
                found += 1
            if look.coming:
                self.assertEqual(soon[look.coming.slot], max(soon))
                coming += 1
        self.assertGreater(min(found, coming), 500)


class Sizes(unittest.TestCase):
    def test_a_cache_takes_what_it_holds_into_another_size(self) -> None:
        cache = KvCache(KvShape(2, 3, 4, torch.float32, torch.device("cpu")))
        cache.remake(Size(2, 128), keep=False)
        cache.keys(1)[1, :, :5] = 7.0
        cache.remake(Size(4, 256), keep=True)
        self.assertEqual(cache.keys(1)[1, :, :5].unique().tolist(), [7.0])
        cache.copy(1, 3, 4)
        self.assertEqual(cache.keys(1)[3, 0, :, 0].sum().item(), 28)
        cache.swap(3, 0, 6)
        self.assertEqual([cache.keys(1)[slot, 0, :, 0].sum().item() for slot in (0, 3)], [28, 0])
        self.assertEqual(cache.bytes, 4 * 256 * cache.shape.bytes_per_token)

    def test_lengths_leave_a_spare_place_and_are_few(self) -> None:
        for tokens in (1, 127, 128, 1000, 1023, 1024, 5000, 40000):
            length = rounded_length(tokens)
            self.assertGreater(length, tokens)
            self.assertLess(length, 1.25 * tokens + 130)
        self.assertLess(len({rounded_length(tokens) for tokens in range(32768)}), 32)

    def test_slots_are_given_up_for_length_only_when_nothing_runs(self) -> None:
        room = Room(most=16, budget=16 * 256)
        self.assertEqual(room.better(Size(0, 0), 100, [], 0, 16), Size(16, 128))
        # Longer, and what is there can stay beside it.
        self.assertEqual(room.better(Size(4, 128), 200, [], 2, 6), Size(8, 256))
        # Longer, but only after the others.
        self.assertIsNone(room.better(Size(16, 128), 1000, [], 2, 1))
        self.assertEqual(room.better(Size(16, 128), 1000, [], 0, 1), Size(4, 1024))
        # Shorter again, for the sake of many.
        self.assertEqual(room.better(Size(4, 1024), 100, [], 0, 16), Size(16, 128))
        # One long one does not cost the others their slots.
        self.assertEqual(room.better(Size(0, 0), 100, [1000], 0, 16), Size(16, 128))
        # More than there is memory for is tried all the same.
        self.assertEqual(room.better(Size(0, 0), 9000, [], 0, 1), Size(1, rounded_length(9000)))


if __name__ == "__main__":
    unittest.main()
