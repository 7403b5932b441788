import pytest
import torch

from bench.synthetic_batches import synthetic_batches


@pytest.mark.parametrize("mean", [29.0, 14.0])
def test_sentences_have_the_lengths_that_are_asked_for(mean):
    batches = synthetic_batches(20, 4096, 100, mean=mean)
    assert len(batches) == 20
    lengths = torch.cat([batch.inputs.mask.sum(1) for batch in batches]).float()
    assert 0.85 * mean < lengths.mean() < 1.15 * mean
    for batch in batches:
        assert batch.inputs.ids.numel() <= 4096
        assert batch.given.ids.numel() <= 4096
        assert batch.labels.max() < 100
