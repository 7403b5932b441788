import torch

from regard.batching.collate import collate
from regard.types import Memory, Routing, Site

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


def test_nobody_waits_for_a_batch_on_its_way_to_a_gpu(monkeypatch):
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
