"""Everybody trains on the same batches."""

import torch

from bench.batches import load_batches, made_up_batches, save_batches


def test_made_up_sentences_have_the_lengths_of_wmt():
    batches = made_up_batches(20, 4096, 100)
    assert len(batches) == 20
    lengths = torch.cat([batch.source.mask.sum(1) for batch in batches]).float()
    assert 25 < lengths.mean() < 33
    for batch in batches:
        assert batch.source.ids.numel() <= 4096
        assert batch.target.ids.numel() <= 4096
        assert batch.labels.max() < 100


def test_batches_come_back_as_they_were(tmp_path):
    batches = made_up_batches(3, 512, 50)
    save_batches(tmp_path / "batches.json", batches)
    for before, after in zip(batches, load_batches(tmp_path / "batches.json"), strict=True):
        assert torch.equal(before.source.ids, after.source.ids)
        assert torch.equal(before.target.ids, after.target.ids)
        assert torch.equal(before.labels, after.labels)
