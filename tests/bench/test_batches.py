"""Everybody trains on the same batches."""

import torch

from bench.batches import load_batches, save_batches
from bench.synthetic_batches import synthetic_batches


def test_batches_come_back_as_they_were(tmp_path):
    batches = synthetic_batches(3, 512, 50)
    save_batches(tmp_path / "batches.json", batches)
    for before, after in zip(batches, load_batches(tmp_path / "batches.json"), strict=True):
        assert torch.equal(before.inputs.ids, after.inputs.ids)
        assert torch.equal(before.given.ids, after.given.ids)
        assert torch.equal(before.labels, after.labels)
