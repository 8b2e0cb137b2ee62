from __future__ import annotations

import math
import unittest
from typing import Any

import torch
from torch import Tensor

from stateset_agents_worker.draw import Shape, Variant, draw, stretch_width, uniform
from stateset_agents_worker.request import Request
from stateset_agents_worker.slots import Slots, take_turn
from tests.tiny import make_model, make_sampler, next_logprobs, prompt_of, reference, sample_one

torch.set_num_threads(1)
MASK = (1 << 64) - 1


def mix(value: int) -> int:
    x = (value + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def plain(rows: int, vocabulary: int, seed: Tensor, temperature: float = 1.0) -> Shape:
    none = torch.zeros(rows, dtype=torch.int64)
    return Shape(
        inverse=torch.full((rows,), 1 / temperature),
        greedy=torch.zeros(rows, dtype=torch.bool),
        seed=seed,
        drawn=none,
        minimum=none,
        stops=torch.zeros(rows, vocabulary, dtype=torch.bool),
        width=stretch_width(vocabulary),
    )


def shaped_distribution(logits: Tensor, prompt: list[int], said: list[int], **o: Any) -> Tensor:
    """What a request draws from, written down token by token. f64"""
    row = logits.double().tolist()
    for token in set(prompt + said):
        r = o.get("repetitionPenalty", 1)
        row[token] = row[token] * r if row[token] < 0 else row[token] / r
    for token in set(said):
        row[token] -= said.count(token) * o.get("frequencyPenalty", 0) + o.get("presencePenalty", 0)
    for token, added in o.get("logitBias", {}).items():
        row[int(token)] += added
    if len(said) < o.get("minTokens", 0):
        for token in o.get("stopTokens", []):
            row[token] = -math.inf
    if o.get("temperature", 1) == 0:
        best = max(range(len(row)), key=lambda token: row[token])
        return torch.nn.functional.one_hot(torch.tensor(best), len(row)).double()
    highest = max(row)
    weights = {token: math.exp((logit - highest) / o.get("temperature", 1)) for token, logit in enumerate(row)}
    falling = sorted(weights, key=lambda token: (-weights[token], token))
    if o.get("topK", 0):
        falling = falling[: o["topK"]]
    if o.get("topP", 1) < 1:
        target, mass, kept = o["topP"] * sum(weights[token] for token in falling), 0.0, []
        for token in falling:
            kept.append(token)
            mass += weights[token]
            if mass >= target:
                break
        falling = kept
    falling = [token for token in falling if weights[token] >= o.get("minP", 0)]
    left = torch.zeros(len(row), dtype=torch.float64)
    for token in falling:
        left[token] = weights[token]
    return left / left.sum()


SHAPES: list[dict[str, Any]] = [
    {},
    {"temperature": 0.6},
    {"temperature": 0},
    {"topK": 1},
    {"topK": 6},
    {"topP": 0.5},
    {"topP": 0.9, "temperature": 1.4},
    {"minP": 0.2},
    {"topK": 30, "topP": 0.7, "minP": 0.03, "temperature": 0.8},
    {"repetitionPenalty": 1.7},
    {"repetitionPenalty": 0.6, "presencePenalty": 1.5},
    {"presencePenalty": 2},
    {"frequencyPenalty": 0.8},
    {"frequencyPenalty": -1.1, "presencePenalty": 0.4},
    {"logitBias": {"5": 4.5, "9": 4.2, "11": -100}},
    {"minTokens": 12, "stopTokens": list(range(0, 97, 2))},
    {"temperature": 0, "repetitionPenalty": 1.9, "frequencyPenalty": 0.5, "logitBias": {"7": 1}, "topP": 0.3},
    {
        "temperature": 0.9,
        "topK": 40,
        "topP": 0.95,
        "minP": 0.01,
        "repetitionPenalty": 1.2,
        "presencePenalty": 0.3,
        "frequencyPenalty": 0.2,
        "logitBias": {"3": 2.0, "90": -1.0},
        "minTokens": 5,
        "stopTokens": [3, 90],
    },
]


class Shapes(unittest.TestCase):
    def test_every_shape_is_the_reference_written_token_by_token(self) -> None:
        model = make_model("qwen2")
        plain_model = reference(model)
        sampler = make_sampler(model)
        prompt = prompt_of(8, 5)
        for number, options in enumerate(SHAPES):
            with self.subTest(options=options):
                done = sample_one(sampler, prompt, maxTokens=24, seed=number, samplerLogprobs=True, **options)
                sequence = prompt.tolist() + done.tokens
                scores = next_logprobs(plain_model, sequence, options.get("temperature") or 1.0)
                with torch.no_grad():
                    logits = plain_model(torch.tensor([sequence])).logits[0]
                for i, token in enumerate(done.tokens):
                    at = len(prompt) - 1 + i
                    self.assertAlmostEqual(done.logprobs[i], scores[at, token].item(), delta=1e-4)
                    left = shaped_distribution(logits[at], prompt.tolist(), done.tokens[:i], **options)
                    own = done.arrays["samplerLogprobs"][i].item()
                    self.assertAlmostEqual(own, left[token].log().item(), delta=2e-4)
                    # And it is the token that the request's own uniform falls on.
                    u = (mix(mix(number ^ 0x9E3779B97F4A7C15) + i * 0xD1B54A32D192ED03 & MASK) >> 11) / 2**53
                    self.assertEqual(token, int((left.cumsum(0) > u).byte().argmax()))

    def test_a_row_that_nothing_shapes_is_drawn_alike_beside_one_that_is(self) -> None:
        logits = 3 * torch.randn(64, 97, generator=torch.Generator().manual_seed(1))
        slots = Slots(64, 97, torch.device("cpu"))
        slots.make_tables()
        prompt = prompt_of(3, 0).long().numpy()
        for slot in range(64):
            odd = {"top_k": 5, "repetition": 1.5, "bias": {3: 1.0}} if slot % 2 else {}
            slots.put(slot, Request(slot, prompt, 9, seed=slot, **odd))
        given = (logits, slots._whole, slots._parts, slots.stops, slots.tables, slots._width)
        _, alone = take_turn(*given, Variant())
        _, beside = take_turn(*given, Variant(shapes=True, cuts=True, top=True))
        self.assertTrue(torch.equal(alone[::2], beside[::2, :3]))
        self.assertFalse(torch.equal(alone[1::2, 0], beside[1::2, 0]))


    def test_top_p_keeps_no_more_than_it_needs(self) -> None:
        shape = plain(64, 4, torch.arange(64))
        shape.top_k, shape.top_p, shape.min_p = torch.zeros(64, dtype=torch.int64), torch.full((64,), 0.5), torch.zeros(64)
        drawn = draw(torch.zeros(64, 4), shape, Variant(cuts=True))
        self.assertEqual(drawn.token.unique().tolist(), [0, 1])
        self.assertAlmostEqual(drawn.own[0].item(), math.log(0.5), places=6)


class Randomness(unittest.TestCase):
    def test_uniforms_are_those_of_the_embedded_engine(self) -> None:
        seeds = torch.tensor([0, 1, 7, 123456789, (1 << 53) - 1, (1 << 63) - 1])
        for counter in (0, 1, 2, 1000):
            got = uniform(seeds, torch.full_like(seeds, counter)).tolist()
            bits = [mix((mix(seed ^ 0x9E3779B97F4A7C15) + counter * 0xD1B54A32D192ED03) & MASK) for seed in seeds.tolist()]
            self.assertEqual(got, [(one >> 11) / 2**53 for one in bits])

    def test_tokens_are_drawn_as_often_as_they_are_likely(self) -> None:
        rows = 40_000
        for vocabulary, temperature in ((30, 1.0), (31, 0.7), (97, 1.5)):
            logits = torch.randn(vocabulary, generator=torch.Generator().manual_seed(vocabulary))
            shape = plain(rows, vocabulary, torch.arange(rows), temperature)
            token = draw(logits.expand(rows, -1), shape, Variant()).token
            expected = rows * (logits / temperature).softmax(0).double()
            chi2 = ((token.bincount(minlength=vocabulary) - expected) ** 2 / expected).sum().item()
            # Five standard deviations above the mean of a chi-square of so many degrees of freedom.
            freedom = vocabulary - 1
            self.assertLess(chi2, freedom + 5 * math.sqrt(2 * freedom))

    def test_what_has_no_weight_is_never_drawn(self) -> None:
        for vocabulary in (1, 2, 3, 13, 96, 97, 1000, 50257):
            rows = 64
            logits = torch.full((rows, vocabulary), -math.inf)
            only = torch.randint(0, vocabulary, (rows, 1), generator=torch.Generator().manual_seed(1))
            logits.scatter_(1, only, torch.randn(rows, 1))
            drawn = draw(logits, plain(rows, vocabulary, torch.arange(rows)), Variant())
            self.assertTrue(torch.equal(drawn.token, only[:, 0]))
            self.assertEqual(drawn.logprob.abs().max().item(), 0)

    def test_a_vocabulary_is_divided_without_a_copy_where_it_can_be(self) -> None:
        for vocabulary in (151936, 128256, 32000, 49152, 512):
            self.assertEqual(vocabulary % stretch_width(vocabulary), 0)
        self.assertGreater(stretch_width(104729), 100)


if __name__ == "__main__":
    unittest.main()
