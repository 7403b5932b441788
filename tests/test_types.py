import pytest
import torch

from regard.batching.collate import collate
from regard.types import Batch, Memory, Padded, Routing, Site

B, S, D, E = 3, 4, 5, 2


def test_memory_of_some_sentences():
    routing = Routing(Site("encoder", 0), torch.zeros(()), torch.zeros(E))
    mask = torch.rand(B, S) > 0.5
    whole = Memory(
        torch.randn(B, S, D), mask, (torch.randn(B, 7), torch.randn(B, 2, 6)), (routing,)
    )
    some = whole.select_sentences(torch.tensor([2, 0, 2, 2]))
    for found, all_of_it in zip(
        (some.states, some.mask, *some.extras),
        (whole.states, whole.mask, *whole.extras),
        strict=True,
    ):
        assert torch.equal(found, torch.stack([all_of_it[row] for row in (2, 0, 2, 2)]))
    assert some.routings == (routing,)


def test_a_batch_is_copied_to_a_gpu_asynchronously(monkeypatch):
    told = []

    def pin(x):
        told.append("pinned")
        return x

    def to(x, where, *, non_blocking=False):
        told.append((where.type, non_blocking))
        return x

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "to", to)
    batch = collate([[5, 6]], [[7]])
    batch.to(torch.device("cuda"))
    assert told == ["pinned", ("cuda", True)] * 7
    told.clear()
    batch.to(torch.device("cpu"))
    assert told == [("cpu", False)] * 7


def test_labels_of_rows_and_segments_go_where_their_batch_goes():
    ids = torch.arange(B * S).view(B, S)
    segments, rows = ids % 2, torch.tensor([0, 1, 1])
    inputs = Padded(ids, ids >= 0, None, segments)
    batch = Batch(inputs, None, torch.tensor([2, 5]), torch.tensor([7, 8]), rows)
    tensors = batch.to(torch.device("cpu")).tensors()
    assert len(tensors) == 6
    assert torch.equal(tensors[2], segments)
    assert torch.equal(tensors[-1], rows)
    twice = Batch(inputs, None, None, rows, rows).duplicated()
    assert torch.equal(twice.inputs.segments, torch.cat([segments, segments]))
    assert torch.equal(twice.row_labels, torch.cat([rows, rows]))
    with pytest.raises(ValueError, match="positions of inputs are not repeated"):
        batch.duplicated()
