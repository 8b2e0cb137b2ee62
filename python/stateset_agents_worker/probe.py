"""Whether a model computes what we take it to compute: tried once, with a few tokens, before anybody relies on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from . import attention
from .errors import WorkerError
from .model import Model
from .scorer import Scorer
from .scores import Wanted
from .tree import TokenTree, lay_out
from .tree_attention import TreeAttention, dense_mask


@torch.no_grad()
def probe(model: Model) -> None:
    """
    The second branch of a tree against the same tokens as a plain sequence through the whole model. A layer that our attention does not
    reach, a head that caps its logits, positions that are ignored: each makes them differ.
    """
    tokens = np.arange(1, 9) % model.vocab
    # Two tokens, then two branches of three.
    tree = TokenTree(tokens, np.array([0, 2, 5, 8]), np.array([-1, 0, 0]), np.ones(8, bool))
    branch, reached = _in_tree(model, tree)
    if reached != len(model.blocks):
        raise WorkerError(
            "MODEL_UNSUPPORTED",
            f"Of the {len(model.blocks)} blocks of a {model.config.model_type} {reached} take their attention from the worker; branches would mix.",
            "Choose a model whose every layer attends through transformers' attention interface.",
        )
    branch, expected = branch[-3:], _alone(model, np.concatenate([tokens[:2], tokens[5:]]))[-3:]
    # In 16 bits only a difference in kind can be told from rounding.
    tolerance = 1e-4 if model.compute == torch.float32 else 0.1
    if not torch.allclose(branch, expected, atol=tolerance, rtol=tolerance):
        raise WorkerError(
            "MODEL_UNSUPPORTED",
            f"{model.config.model_type} does not compute what the worker takes it to: the log-probs of a branch differ from those of the same "
            f"sequence by {(branch - expected).abs().max().item():.3g}.",
            "Its layers or its head do more than attention and a product; choose another model.",
        )


def _in_tree(model: Model, tree: TokenTree) -> tuple[Tensor, int]:
    """The log-probs, and how often a layer asked for our attention."""
    layout = lay_out(tree, range(len(tree.parent)))
    device = model.head.weight.device
    tokens, depth = (torch.from_numpy(numbers).to(device) for numbers in (layout.tokens, layout.depth))
    rows, targets = (torch.from_numpy(numbers).to(device) for numbers in (layout.foretold_by, layout.tokens[layout.wanted]))
    attend, asked = TreeAttention(layout, device, False, model.windows), []

    def counted(module: nn.Module, *args: Any) -> Tensor:
        asked.append(module)
        return attend(module, *args)

    with attention.use(counted):
        return Scorer(model)(tokens, depth, Wanted(rows, targets, 1.0, False))[1], len(asked)


def _alone(model: Model, sequence: np.ndarray) -> Tensor:
    tokens = torch.from_numpy(sequence).to(model.head.weight.device)
    end, depth = torch.full_like(tokens, len(tokens)), torch.arange(len(tokens), device=tokens.device)

    def attend(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None, dropout: float) -> Tensor:
        return attention.plain(query, key, value, dense_mask(end, depth, window), scaling)

    with attention.use(attend):
        logits = model.causal(input_ids=tokens[None], use_cache=False).logits[0].float()
    return torch.log_softmax(logits, 1)[:-1].gather(1, tokens[1:, None])[:, 0]
