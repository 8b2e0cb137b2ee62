"""Layers of one input as one product: the same numbers, the same parameters, fewer products."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from stateset_agents_worker import attention
from stateset_agents_worker.decoder import Decoder
from stateset_agents_worker.side_by_side import Other, SideBySide
from tests.tiny import CONFIGS, make_model, prompt_of


class Products(TorchFunctionMode):
    count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.nn.functional.linear
        return func(*args, **(kwargs or {}))


def causal(_: nn.Module, query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None, dropout: float) -> Tensor:
    return attention.plain(query, key, value, None, scaling)


def hidden(decoder: Decoder) -> tuple[Tensor, int]:
    tokens = prompt_of(9, 1)[None].long()
    with torch.no_grad(), attention.use(causal), Products() as products:
        return decoder.hidden(tokens, torch.arange(9)[None]), products.count


def adapted(model: nn.Module) -> nn.Module:
    torch.manual_seed(3)
    config = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    return get_peft_model(model, config).eval()


class Layers(unittest.TestCase):
    def test_give_what_they_gave_in_fewer_products(self) -> None:
        for architecture in CONFIGS:
            for lora in (False, True):
                with self.subTest(architecture=architecture, lora=lora):
                    model = make_model(architecture)
                    decoder = Decoder(adapted(model) if lora else model)
                    wanted, products = hidden(decoder)
                    names = [name for name, _ in decoder.model.named_parameters()]
                    joined = SideBySide(decoder.blocks)
                    with joined.use():
                        got, fewer = hidden(decoder)
                    # Of q, k, v and gate, up one each, twice with an adapter, in two blocks; GPT-2 has them as one already.
                    spared = 0 if architecture == "gpt2" else 2 * 3 * (2 if lora else 1)
                    self.assertEqual(products - fewer, spared)
                    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
                    after, again = hidden(decoder)
                    self.assertEqual(again, products)
                    torch.testing.assert_close(after, wanted, rtol=1e-5, atol=1e-5)
                    self.assertEqual([name for name, _ in decoder.model.named_parameters()], names)

    def test_follow_their_parameters(self) -> None:
        decoder = Decoder(adapted(make_model("qwen2")))
        joined = SideBySide(decoder.blocks)
        before, _ = hidden(decoder)
        for parameter in decoder.model.parameters():
            parameter.data.copy_(parameter.data * 1.1 + 0.01)
        wanted, _ = hidden(decoder)
        self.assertGreater((wanted - before).abs().max().item(), 1e-2)
        with joined.use():
            torch.testing.assert_close(hidden(decoder)[0], wanted, rtol=1e-5, atol=1e-5)

    def test_compute_by_themselves_what_gets_another_input(self) -> None:
        model = make_model("llama")
        joined = SideBySide(list(model.model.layers))
        own = model.model.layers[0].mlp
        x, y = torch.randn(3, 32), torch.randn(3, 32)
        with torch.no_grad():
            wanted = own.up_proj(y)
            with joined.use():
                self.assertIs(type(own.up_proj), Other)
                own.gate_proj(x)
                torch.testing.assert_close(own.up_proj(y), wanted)

    def test_of_other_kinds_are_left_alone(self) -> None:
        model = make_model("llama")
        block = model.model.layers[0]
        block.mlp.up_proj = nn.Linear(32, 64, dtype=torch.float64)
        block.self_attn.k_proj = nn.Identity()
        joined = SideBySide([block])
        with joined.use():
            self.assertIs(type(block.mlp.gate_proj), nn.Linear)
            self.assertIs(type(block.self_attn.q_proj), nn.Linear)


if __name__ == "__main__":
    unittest.main()
