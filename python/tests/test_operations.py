"""A real worker, of one rank and of two, against requests that are frames but make no sense: it answers or refuses, and lives on."""

from __future__ import annotations

import os
import unittest
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from stateset_agents_worker.operations import OPERATIONS
from stateset_agents_worker.worker import QUIET
from tests.client import Closed, TestClient
from tests.models import CONFIGS, LORA, make
from tests.processes import TORCHRUN, Processes

WORKER = ["-m", "stateset_agents_worker"]
LARGEST = (1 << 53) - 1
ODD: list[Any] = [None, True, -1, 1.5, LARGEST, "", "nonsense", [], [1], {}, {"a": [1]}]
TREE = {
    "tokens": np.array([5, 6, 7, 8], np.int32),
    "nodeStart": np.array([0, 2, 4], np.int32),
    "nodeParent": np.array([-1, -1], np.int32),
    "wanted": np.array([0, 1, 0, 1], np.uint8),
}
SLOPES = {name: np.full(4, 0.1, np.float32) for name in ("logprobs", "entropy", "values")}
FORWARD = {"grad": True, "temperature": 0.9, "entropy": True, "values": True, "hidden": True, "recompute": False}
STEP = dict(
    learningRate=1e-4, valueLearningRate=1e-4, loraPlusRatio=2, beta1=0.9, beta2=0.99, epsilon=1e-6, weightDecay=0.1, clipNorm=1, scope="all"
)
SAMPLE = dict(
    maxTokens=2, temperature=1, topP=0.9, topK=5, minP=0.1, repetitionPenalty=1.1, presencePenalty=0.1, frequencyPenalty=0.1, minTokens=1,
    stopTokens=[2], logitBias={"3": 1}, seed=1, topLogprobs=2, samplerLogprobs=True, namespace="a", stream=True,
)  # fmt: skip
Arrays = dict[str, np.ndarray]
VALID: dict[str, tuple[dict[str, Any], Arrays]] = {
    "hello": ({"protocol": 1, "version": "1", "token": "t"}, {}),
    "ping": ({}, {}),
    "stats": ({}, {}),
    "cancel": ({"target": 1}, {}),
    "sample": (SAMPLE, {"tokens": TREE["tokens"]}),
    "forward": (FORWARD, TREE),
    "backward": ({"pass": 1, "valuesIntoTrunk": True}, SLOPES),
    "release": ({"pass": 1}, {}),
    "step": (STEP, {}),
    "zeroGradients": ({}, {}),
    "addValueHead": ({}, {}),
    "reference": ({"of": {"from": "reference"}}, {}),
    "referenceLogprobs": ({"reference": 1, "temperature": 1}, TREE),
    "referenceBlend": ({"reference": 1, "decay": 0.5}, {}),
    "referenceSave": ({"reference": 1, "dir": "reference", "version": "v"}, {}),
    "referenceClose": ({"reference": 1}, {}),
    "vector": ({"of": "parameters"}, {}),
    "vectorDot": ({"a": 1, "b": 1}, {}),
    "vectorAdd": ({"a": 1, "b": 1, "scale": 0.1}, {}),
    "vectorScale": ({"a": 1, "factor": 0.5}, {}),
    "vectorCopy": ({"a": 1}, {}),
    "vectorRead": ({"a": 1}, {}),
    "vectorMove": ({"a": 1}, {}),
    "vectorRelease": ({"vector": 1}, {}),
    "save": ({"dir": "saved", "dtype": "f32", "merge": False, "base": "base"}, {}),
    "load": ({"dir": "saved"}, {}),
    "snapshot": ({"dir": "snapshot", "version": "v"}, {}),
    "restore": ({"dir": "snapshot"}, {}),
}


def mutated(options: dict[str, Any], arrays: Arrays) -> Iterator[tuple[dict[str, Any], Arrays]]:
    """Each field and each array on its own is left out, of another type, or of another size; fields of fields too."""
    for name, value in options.items():
        yield {key: one for key, one in options.items() if key != name}, arrays
        for odd in ODD:
            yield {**options, name: odd}, arrays
        if isinstance(value, dict):
            for inner, _ in mutated(value, {}):
                yield {**options, name: inner}, arrays
    for name, array in arrays.items():
        yield options, {key: one for key, one in arrays.items() if key != name}
        for other in (array[:0], array[:1], np.concatenate([array, array]), array.astype(np.uint8) + 200, array.astype(np.int64) - LARGEST):
            yield options, {**arrays, name: other}
        for kind in (np.float64, np.float32, np.int64, np.int32, np.uint8):
            yield options, {**arrays, name: array.astype(kind)}


class Mutated(Processes):
    def setUp(self) -> None:
        super().setUp()
        self.model = make(CONFIGS["llama"])

    def ready_client(self, ranks: int) -> TestClient:
        runner = TORCHRUN if ranks == 2 else None
        python = str(Path(__file__).parents[1])
        self.process = self.start("--socket", self.path(f"socket-{ranks}"), runner=runner, program=WORKER, PYTHONPATH=python, HF_HUB_OFFLINE="1")
        client = TestClient(self.ready()["address"])
        self.addCleanup(client.close)
        self.pids += client.hello()["pids"]
        return client

    def give(self, client: TestClient, op: str, options: dict[str, Any], arrays: Arrays) -> None:
        """It is answered, or refused with a code; what has no answer is followed by something that has one."""
        id = client.send(op, arrays, **options)
        if op in QUIET:
            id = client.send("zeroGradients")
        try:
            envelope = client.until(id)[0].envelope
        except (Closed, ConnectionResetError):
            self.fail(f"{op} {options} ended it: {self.text('err')[-3000:]}")
        if not envelope["ok"]:
            self.assertRegex(envelope["error"]["code"], "^[A-Z_]+$", (op, options))
            self.assertTrue(envelope["error"]["message"], (op, options))

    def open(self, client: TestClient, **options: Any) -> None:
        opened = client.ask("open", model=self.model, **{"adapter": None, "lora": LORA, "dtype": "f32", "quantise": None, "seed": 1, **options})
        self.assertTrue(opened["ok"], opened)
        self.assertTrue(client.ask("addValueHead")["ok"])

    def test_lives_on(self) -> None:
        self.assertLessEqual(set(OPERATIONS) | QUIET, VALID.keys())
        # Two ranks take five times as long for each, as opening does, and differ in little.
        for ranks, stride in ((1, 1), (2, 5)):
            with self.subTest(ranks=ranks):
                client = self.ready_client(ranks)
                self.open(client)
                # What the requests below mean.
                self.assertTrue(client.ask("reference", of="present")["ok"])
                self.assertTrue(client.ask("vector", of="parameters")["ok"])
                for op, (options, arrays) in VALID.items():
                    for odd in islice(mutated(options, arrays), None, None, stride):
                        if op == "backward" and odd[0].get("pass") == 1:
                            odd[0]["pass"] = client.ask("forward", TREE, **FORWARD)["pass"]
                        self.give(client, op, *odd)
                opened = {"model": self.model, "adapter": None, "lora": LORA, "dtype": "f32", "quantise": None, "seed": 1, "slots": 2}
                for options, _ in islice(mutated(opened, {}), None, None, 5):
                    self.give(client, "open", options, {})
                    self.give(client, "sample", SAMPLE, {"tokens": TREE["tokens"]})
                self.open(client)
                self.assertTrue(client.ask("forward", TREE, **FORWARD)["ok"])
                sample = client.sample(3)
                self.assertEqual(client.until(sample)[0].envelope["finish"], "length")
                client.ask("close")
                client.close()
                self.assertEqual(self.process.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
