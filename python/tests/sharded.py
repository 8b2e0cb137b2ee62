"""Run by test_sharded.py on each of two ranks: samples before anything else was computed, unevenly, with passes in between."""

from __future__ import annotations

import sys

import torch

from stateset_agents_worker.engine import Engine
from stateset_agents_worker.lifeline import end
from stateset_agents_worker.ranks import Ranks
from tests.tiny import Done, prompt_of, take

IDS = range(7)
VOCABULARY = 64
LINE = {
    "tokens": prompt_of(6, 1) % VOCABULARY,
    "nodeStart": torch.tensor([0, 6], dtype=torch.int32),
    "nodeParent": torch.tensor([-1], dtype=torch.int32),
    "wanted": torch.tensor([0, 1, 1, 1, 1, 1], dtype=torch.uint8),
}


def work(model: str, ranks: Ranks) -> dict[int, list[int]]:
    """Rank 0 gets the first five requests, rank 1 the last two, which end long before; every rank steps until all are through."""
    engine = Engine.open({"model": model, "slots": 3}, ranks)
    found: dict[int, list[int]] = {}
    for round in range(2):
        done: dict[int, Done] = {}
        for id in IDS:
            if ranks.world == 1 or ranks.rank == (0 if id < 5 else 1):
                engine.sampler.add(id, {"maxTokens": 20 if id < 5 else 3, "seed": id}, prompt_of(4 + id, id) % VOCABULARY)
        turn = 0
        while not all(ranks.gather(engine.sampler.idle)):
            take(done, engine.sampler.step())
            turn += 1
            if turn % 5 == 0:
                made, arrays = engine.call("forward", {}, LINE)
                engine.call("backward", {"pass": made["pass"]}, {"logprobs": -torch.ones_like(arrays["logprobs"])})
        for part in ranks.gather({100 * round + id: one.tokens for id, one in done.items()}):
            found.update(part)
        engine.call("step", {"learningRate": 0.05}, {})
        engine.sampler.forget()
    return found


if __name__ == "__main__":
    joined = Ranks.join()
    torch.set_num_threads(1)
    answer = work(sys.argv[1], joined)
    if joined.rank == 0:
        torch.save(answer, sys.argv[2])
    joined.leave()
    end(0)
