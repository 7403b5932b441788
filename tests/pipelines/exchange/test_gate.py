"""A conversion is refused if a single answer of its sample differs."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from regard.pipelines.exchange import gate
from regard.pipelines.exchange.onnx import onnx_export

ANSWERS = [[1], [2], [3]]
every_number = pytest.mark.parametrize("different", [0, 1, 3])


def others(different):
    return [[*row, 9] if number < different else row for number, row in enumerate(ANSWERS)]


@every_number
def test_of_an_import(different, monkeypatch):
    logits = lambda *_: torch.zeros(1, 2)  # noqa: E731
    parity = SimpleNamespace(
        scores_tokens=lambda model: False,
        sample=lambda *_: SimpleNamespace(rows=ANSWERS),
        our_answers=lambda *_: ANSWERS,
        peer_answers=lambda *_: others(different),
        our_logits=logits,
        peer_logits=logits,
        other_logits=lambda *_: None,
    )
    monkeypatch.setattr(gate, "_parity", lambda family: parity)
    family = SimpleNamespace(to_float64=lambda peer: None)
    found = gate.compare(family, torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), None, "a peer")
    assert (found.same_answers, found.answers) == (3 - different, 3)
    assert bool(found.refused) == bool(different)


@every_number
def test_of_graphs(different, monkeypatch):
    monkeypatch.setattr("regard.engines.onnx.onnx_model.open_decoder", lambda folder: None)
    monkeypatch.setattr(onnx_export, "_compare_steps", lambda *_: [2 * (torch.zeros(1, 2),)])
    pairs = list(zip(ANSWERS, others(different), strict=True))
    monkeypatch.setattr(onnx_export, "_compare_searches", lambda *_: pairs)
    model = SimpleNamespace(as_generator=lambda: "a generator")
    run = SimpleNamespace(model=model, make_inputs=lambda *_: None)
    found = onnx_export.check_graphs(run, Path())
    assert bool(found.refused) == bool(different)
    assert found.answers > found.same_answers or not different
