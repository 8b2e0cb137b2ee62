from __future__ import annotations

import unittest

import torch

from stateset_agents_worker.draw import Variant
from stateset_agents_worker.sampler import Sampler
from stateset_agents_worker.kv_cache import CPU_BYTES
from tests.tiny import (
    CONFIGS,
    VOCABULARY,
    make_model,
    make_sampler,
    next_logprobs,
    prompt_of,
    reference,
    run,
    sample_one,
    take,
)


class Agreement(unittest.TestCase):
    def test_greedy_is_what_generate_gives_token_for_token(self) -> None:
        for architecture in CONFIGS:
            model = make_model(architecture)
            plain = reference(model)
            sampler = make_sampler(model)
            sampler._pieces = (5, 5)
            for id, length in enumerate((1, 2, 9, 30)):
                sampler.add(id, {"maxTokens": 40, "temperature": 0}, prompt_of(length, id))
            done = run(sampler)
            for id, length in enumerate((1, 2, 9, 30)):
                with self.subTest(architecture=architecture, length=length):
                    prompt = prompt_of(length, id).long()[None]
                    wanted = plain.generate(prompt, do_sample=False, max_new_tokens=40)[0, length:]
                    self.assertEqual(done[id].tokens, wanted.tolist())
                    self.assertGreater(len(set(done[id].tokens)), 3)

    def test_logprobs_are_those_of_one_pass_over_the_whole(self) -> None:
        for architecture in CONFIGS:
            model = make_model(architecture)
            plain = reference(model)
            sampler = make_sampler(model)
            temperatures = [0.0, 0.7, 1.0, 1.3]
            for id, temperature in enumerate(temperatures):
                options = {"maxTokens": 30, "temperature": temperature, "seed": id, "topLogprobs": 3}
                sampler.add(id, options, prompt_of(5 + id, id))
            done = run(sampler)
            for id, temperature in enumerate(temperatures):
                with self.subTest(architecture=architecture, temperature=temperature):
                    prompt = prompt_of(5 + id, id).tolist()
                    scores = next_logprobs(plain, prompt + done[id].tokens, temperature or 1.0)
                    rows = scores[len(prompt) - 1 : -1]
                    own = rows.gather(1, torch.tensor(done[id].tokens)[:, None])[:, 0]
                    self.assertLess((own - torch.tensor(done[id].logprobs)).abs().max().item(), 1e-4)
                    best = rows.topk(3)
                    top = done[id].arrays["topTokens"].view(-1, 3)
                    self.assertTrue(torch.equal(top.long(), best.indices))
                    far = done[id].arrays["topLogprobs"].view(-1, 3) - best.values
                    self.assertLess(far.abs().max().item(), 1e-4)


class Neighbours(unittest.TestCase):
    def setUp(self) -> None:
        self.model = make_model("qwen3")

    def requests(self) -> list[tuple[dict, torch.Tensor]]:
        shapes = [{}, {"topP": 0.8}, {"topK": 5}, {"repetitionPenalty": 1.3}, {"minP": 0.05, "minTokens": 4}, {"temperature": 0}]
        return [
            ({"maxTokens": 5 + 7 * i % 23, "seed": i, **shapes[i % len(shapes)]}, prompt_of(1 + 11 * i % 40, i))
            for i in range(24)
        ]

    def test_a_reply_is_the_same_alone_and_among_others(self) -> None:
        together = make_sampler(self.model, slots=5)
        for id, (options, prompt) in enumerate(self.requests()):
            together.add(id, options, prompt)
        done = run(together)
        self.assertEqual(len(done), 24)
        for id, (options, prompt) in enumerate(self.requests()):
            alone = sample_one(make_sampler(self.model), prompt, **options)
            self.assertEqual(done[id].tokens, alone.tokens)

    def test_seeds_decide(self) -> None:
        sampler = make_sampler(self.model)
        first = sample_one(sampler, prompt_of(6, 1), seed=3)
        self.assertEqual(sample_one(sampler, prompt_of(6, 1), seed=3).tokens, first.tokens)
        self.assertNotEqual(sample_one(sampler, prompt_of(6, 1), seed=4).tokens, first.tokens)

    def test_slots_are_filled_again_one_by_one(self) -> None:
        sampler = make_sampler(self.model, slots=2)
        for id in range(6):
            sampler.add(id, {"maxTokens": 3 + 4 * id}, prompt_of(4, id))
        done: dict = {}
        most = 0
        while not sampler.idle:
            take(done, sampler.step())
            running, waiting = sampler.stats()["running"], sampler.stats()["waiting"]
            most = max(most, running)
            # Never a free slot beside a request that waits, but for the moment in which one has just ended.
            self.assertTrue(running == 2 or waiting == 0 or running + waiting + len(done) == 6)
        self.assertEqual(most, 2)
        self.assertEqual([len(done[id].tokens) for id in range(6)], [3, 7, 11, 15, 19, 23])

    def test_replies_go_on_while_a_long_prompt_is_computed(self) -> None:
        sampler = make_sampler(self.model)
        sampler._pieces = (8, 8)
        sampler.add(1, {"maxTokens": 60}, prompt_of(3, 1))
        sampler.step()
        sampler.add(2, {"maxTokens": 2}, prompt_of(161, 2))
        drawn = sampler.stats()["sampledTokens"]
        for _ in range(10):
            sampler.step()
        self.assertEqual(sampler.stats()["sampledTokens"] - drawn, 10)
        self.assertEqual(run(sampler).keys(), {1, 2})


class Ends(unittest.TestCase):
    def setUp(self) -> None:
        self.model = make_model("llama")
        self.sampler = make_sampler(self.model)
        self.prompt = prompt_of(5, 0)

    def test_a_stop_token_is_the_last_one(self) -> None:
        self.sampler = make_sampler(self.model, slots=1)
        free = sample_one(self.sampler, self.prompt, maxTokens=30)
        self.assertEqual((free.finish, len(free.tokens)), ("length", 30))
        stop = free.tokens[12]
        done = sample_one(self.sampler, self.prompt, maxTokens=30, stopTokens=[stop])
        self.assertEqual(done.finish, "stop")
        self.assertEqual(done.tokens, free.tokens[: free.tokens.index(stop) + 1])
        # The slot's next occupant has stops of its own.
        self.assertEqual(sample_one(self.sampler, self.prompt, maxTokens=30).tokens, free.tokens)

    def test_no_stop_token_is_drawn_before_the_smallest_length(self) -> None:
        stops = list(range(VOCABULARY - 3))
        self.assertLess(len(sample_one(self.sampler, self.prompt, stopTokens=stops).tokens), 4)
        done = sample_one(self.sampler, self.prompt, stopTokens=stops, minTokens=9, maxTokens=40)
        self.assertGreaterEqual(len(done.tokens), 9)
        self.assertTrue(all(token >= VOCABULARY - 3 for token in done.tokens[:9]))

    def test_the_context_ends_a_reply(self) -> None:
        done = sample_one(self.sampler, prompt_of(250, 3), maxTokens=100)
        self.assertEqual((done.finish, len(done.tokens)), ("length", 6))

    def test_what_cannot_be_sampled_is_refused_at_once(self) -> None:
        for code, options, prompt in (
            ("CONTEXT_OVERFLOW", {}, prompt_of(256, 0)),
            ("INVALID_OPTION", {}, prompt_of(0, 0)),
            ("INVALID_OPTION", {"maxTokens": 0}, self.prompt),
            ("INVALID_OPTION", {}, torch.tensor([1, VOCABULARY], dtype=torch.int32)),
            ("INVALID_OPTION", {}, torch.tensor([-1], dtype=torch.int32)),
            ("INVALID_OPTION", {"stopTokens": [VOCABULARY]}, self.prompt),
            ("INVALID_OPTION", {"logitBias": {"400": 1}}, self.prompt),
            ("INVALID_OPTION", {"minTokens": 2, "stopTokens": list(range(VOCABULARY))}, self.prompt),
            ("INVALID_OPTION", {"topP": 0}, self.prompt),
            ("INVALID_OPTION", {"temperature": float("nan")}, self.prompt),
            ("INVALID_OPTION", {"temperature": "warm"}, self.prompt),
            ("INVALID_OPTION", {"logitBias": [1, 2]}, self.prompt),
            ("INVALID_OPTION", {"logitBias": {"4": float("inf")}}, self.prompt),
            ("INVALID_OPTION", {"seed": 1 << 63}, self.prompt),
            ("INVALID_OPTION", {"maxTokens": None}, self.prompt),
        ):
            with self.subTest(options=options):
                with self.assertRaises(Exception) as caught:
                    self.sampler.add(1, {"maxTokens": 4, **options}, prompt)
                self.assertEqual(caught.exception.code, code)
        self.assertTrue(self.sampler.idle)
        # Null is left out, and what is too large to matter is no error.
        odd = {"topK": 1 << 70, "minTokens": None, "logitBias": None, "namespace": None, "maxTokens": 1 << 70}
        self.assertEqual(len(sample_one(self.sampler, prompt_of(250, 3), **odd).tokens), 6)

    def test_cancelling_frees_the_slot_and_gives_what_there_is(self) -> None:
        sampler = make_sampler(self.model, slots=1)
        free = sample_one(make_sampler(self.model), self.prompt, maxTokens=200)
        for id in (1, 2, 3):
            sampler.add(id, {"maxTokens": 200}, self.prompt)
        done: dict = {}
        for _ in range(8):
            take(done, sampler.step())
        sampler.cancel(1)
        sampler.cancel(3)
        sampler.cancel(99)
        self.assertEqual(sampler.stats()["running"], 0)
        take(done, sampler.step())
        self.assertEqual((done[1].finish, done[1].tokens), ("aborted", free.tokens[:8]))
        self.assertEqual((done[3].finish, done[3].tokens), ("aborted", []))
        self.assertEqual(sampler.stats()["running"], 1)
        self.assertEqual(run(sampler)[2].tokens, free.tokens)

    def test_a_cancelled_reply_writes_no_more_into_its_slot(self) -> None:
        sampler = make_sampler(self.model, slots=2)
        sampler._pieces = (7, 7)
        for id in (1, 2):
            sampler.add(id, {"maxTokens": 100}, prompt_of(5, id))
        for _ in range(4):
            sampler.step()
        sampler.cancel(1)
        sampler.add(3, {"maxTokens": 20}, prompt_of(90, 3))
        self.assertEqual(run(sampler)[3].tokens, sample_one(make_sampler(self.model), prompt_of(90, 3), maxTokens=20).tokens)

    def test_streamed_tokens_are_those_of_the_end(self) -> None:
        options = {"stream": True, "samplerLogprobs": True, "topLogprobs": 2, "topP": 0.9, "maxTokens": 9}
        done = sample_one(self.sampler, self.prompt, **options)
        self.assertEqual(len(done.events), 9)
        for name in ("tokens", "logprobs", "samplerLogprobs", "topTokens", "topLogprobs"):
            streamed = torch.cat([event.arrays[name] for event in done.events])
            self.assertTrue(torch.equal(streamed, done.arrays[name]), name)

    def test_weights_that_are_not_finite_are_an_error_of_the_request(self) -> None:
        model = make_model("llama")
        sampler = make_sampler(model)
        good = sample_one(sampler, self.prompt)
        kept = model.lm_head.weight.data.clone()
        model.lm_head.weight.data[3] = float("nan")
        self.assertEqual(sample_one(sampler, self.prompt).error, "NOT_FINITE")
        model.lm_head.weight.data.copy_(kept)
        self.assertEqual(sample_one(sampler, self.prompt).tokens, good.tokens)

    def test_what_is_not_finite_does_not_outlive_its_cause(self) -> None:
        model = make_model("llama")
        sampler = make_sampler(model, slots=4, cache_tokens=4 * 128)
        long = dict(maxTokens=80)
        good = sample_one(sampler, self.prompt, **long).tokens
        # Keys and values: one token's, then everybody's.
        embedding, values = model.model.embed_tokens.weight.data, model.model.layers[0].self_attn.v_proj.weight.data
        kept = embedding.clone(), values.clone()
        odd = next(token for token in range(VOCABULARY) if token not in {*self.prompt.tolist(), *good})
        embedding[odd] = float("inf")
        for id in (2, 3):
            sampler.add(id, {"maxTokens": 3}, torch.cat([prompt_of(30, id), torch.tensor([odd, 1], dtype=torch.int32)]))
        self.assertEqual({one.error for one in run(sampler).values()}, {"NOT_FINITE"})
        self.assertEqual(self.four(sampler, **long), [good] * 4)
        values.fill_(float("nan"))
        self.assertEqual(sample_one(sampler, prompt_of(60, 4)).error, "NOT_FINITE")
        # Rows without a reply compute beside the others.
        places = sampler._places
        assert places is not None
        with torch.no_grad():
            sampler._steps.run(places.cache, places.slots, 4, places.cache.length, Variant())
        embedding.copy_(kept[0])
        values.copy_(kept[1])
        sampler.forget()
        self.assertEqual(self.four(sampler, **long), [good] * 4)

    def four(self, sampler: Sampler, **options: int) -> list[list[int]]:
        for id in range(4):
            sampler.add(id, options, self.prompt)
        return [one.tokens for one in run(sampler).values()]

    def test_a_failing_step_empties_the_sampler(self) -> None:
        good = sample_one(self.sampler, self.prompt)
        hidden = self.sampler.decoder.hidden
        for id in range(20):
            self.sampler.add(id, {"maxTokens": 9}, prompt_of(7, id))
        self.sampler.step()
        self.sampler.decoder.hidden = lambda *_: 1 / 0  # type: ignore[method-assign]
        with self.assertRaises(ZeroDivisionError):
            self.sampler.step()
        self.assertTrue(self.sampler.idle)
        self.sampler.decoder.hidden = hidden  # type: ignore[method-assign]
        self.assertEqual(sample_one(self.sampler, self.prompt).tokens, good.tokens)


class CacheTest(unittest.TestCase):
    def test_says_how_much_memory_it_may_come_to_take(self) -> None:
        model = make_model("llama")
        per_token = 2 * 2 * 2 * 8 * 4
        few = make_sampler(model, slots=2, context_length=200)
        self.assertEqual(few.most_cache_bytes, 2 * 256 * per_token)
        # A long context and many slots, as of a real model: not what they would take together, but what they are given.
        many = make_sampler(model, slots=64, context_length=1 << 20, cache_tokens=None)
        self.assertLess(CPU_BYTES - per_token, many.most_cache_bytes)
        self.assertLessEqual(many.most_cache_bytes, CPU_BYTES)
        self.assertEqual(make_sampler(model, slots=64, context_length=1 << 20, cache_tokens=500).most_cache_bytes, 500 * per_token)


if __name__ == "__main__":
    unittest.main()
