"""Windows of a text, each read for itself: all of it, in another order in each epoch."""

from itertools import islice

import numpy as np
import pytest
import torch

from regard.batching.sampler import StreamPosition
from regard.batching.shuffled_windows import consecutive_windows, shuffled_windows

IDS = np.arange(4, 104, dtype=np.uint16)
START = StreamPosition(0, 0)


def stream(start=START, seed=1):
    return shuffled_windows(IDS, start, rows=3, length=8, seed=seed)


def firsts(batches):
    return [one.batch.given.ids[:, 0].tolist() for one in batches]


def test_the_label_of_a_token_is_the_next_one():
    for one in islice(stream(), 9):
        batch = one.batch
        assert batch.given.ids.shape == (3, 8)
        assert torch.equal(batch.labels, batch.given.ids.flatten() + 1)


def test_each_epoch_has_its_own_order_and_beginning_and_no_token_twice():
    epochs = {}
    position = START
    for one in islice(stream(), 12):
        epochs.setdefault(position.epoch, []).append(one.batch.given.ids.flatten())
        position = one.next_position
    seen = [torch.cat(batches) for epoch, batches in epochs.items() if epoch < 3]
    assert len(seen) == 3
    assert all(len(ids.unique()) == len(ids) for ids in seen)
    assert len({tuple(ids.tolist()) for ids in seen}) == 3
    assert len({int(ids.min()) for ids in seen}) > 1


def test_a_stream_from_any_position_goes_on_as_the_whole_one():
    whole = list(islice(stream(), 11))
    for number in (0, 3, 6):
        rest = list(islice(stream(whole[number].next_position), 4))
        assert firsts(rest) == firsts(whole[number + 1 : number + 5])
    assert firsts(islice(stream(seed=2), 4)) != firsts(whole[:4])


def test_every_token_but_the_first_is_a_label_once_in_evaluation():
    batches = list(consecutive_windows(IDS, rows=3, length=8))
    labels = torch.cat([batch.labels for batch in batches])
    assert labels.tolist() == list(range(5, 104))


@pytest.mark.parametrize("prefix", [(1,), (2, 3, 1)])
def test_after_a_prefix_every_token_is_a_label_once_in_evaluation(prefix):
    batches = list(consecutive_windows(IDS, rows=3, length=8, prefix=prefix))
    assert torch.cat([batch.labels for batch in batches]).tolist() == list(range(4, 104))
    for batch in batches:
        assert (batch.given.ids[:, : len(prefix)] == torch.tensor(prefix)).all()
        assert batch.given.ids.shape[1] <= 8
        following = torch.cat(
            [batch.given.ids[:, 1:], batch.labels.view(len(batch.given.ids), -1)[:, -1:]], 1
        )
        assert torch.equal(following.flatten()[batch.positions], batch.labels)
