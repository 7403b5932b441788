from itertools import islice

import numpy as np
import pytest

from regard.batching.sampler import StreamPosition
from regard.batching.text_windows import continued_windows, whole_text_windows, window_lengths
from regard.errors import CorpusError
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.text.special_tokens import EOS

TEXT = np.arange(10, 113, dtype=np.uint16)  # 103 tokens, each of them once


def windows(start=(0, 0), *, rows=4, length=7, vary=False, count=12):
    stream = continued_windows(
        TEXT, StreamPosition(*start), rows=rows, length=length, vary=vary, seed=3
    )
    return list(islice(stream, count))


@pytest.mark.parametrize("vary", [False, True])
def test_rows_continue_those_of_the_batch_before(vary):
    found = windows(vary=vary, length=10)
    given = np.concatenate([one.batch.decoder_input.ids.numpy() for one in found], 1)
    labels = np.concatenate([one.batch.labels.view(4, -1).numpy() for one in found], 1)
    np.testing.assert_array_equal(given[:, 1:], labels[:, :-1])
    stretch = len(TEXT) // 4
    for row in range(4):  # and each goes on with the next one's text, the last with the first's
        expected = np.roll(TEXT[: 4 * stretch], -row * stretch)
        np.testing.assert_array_equal(given[row], np.resize(expected, given.shape[1]))


def test_lengths_vary_from_epoch_to_epoch_around_the_one_asked_for():
    lengths = [window_lengths(100_000, 70, vary=True, seed=1, epoch=n) for n in range(2)]
    assert lengths[0] != lengths[1]
    assert lengths[0] == window_lengths(100_000, 70, vary=True, seed=1, epoch=0)
    halved = [n for n in lengths[0] if n < 52]
    assert 0.02 < len(halved) / len(lengths[0]) < 0.08
    assert abs(np.mean([n for n in lengths[0] if n >= 52]) - 70) < 1
    assert {n % 5 for n in lengths[0]} == {0}
    assert sum(lengths[0][:-1]) < 100_000 <= sum(lengths[0])
    assert window_lengths(20, 7, vary=False, seed=1, epoch=0) == [7, 7, 7]


@pytest.mark.parametrize("vary", [False, True])
def test_a_stream_goes_on_from_any_position(vary):
    whole = windows(vary=vary)
    assert whole[-1].next_position.epoch > 1
    for number in (1, 4, 9):
        rest = windows(whole[number - 1].next_position, vary=vary, count=12 - number)
        for found, wanted in zip(rest, whole[number:], strict=True):
            assert found.next_position == wanted.next_position
            assert found.batch.labels.tolist() == wanted.batch.labels.tolist()


def test_a_text_too_short_for_its_rows_is_refused():
    with pytest.raises(CorpusError, match=r"103 tokens is too short to be read in 60 rows"):
        windows(rows=60)


@pytest.mark.parametrize(("rows", "length"), [(1, 1000), (1, 10), (3, 10), (5, 1000)])
def test_each_token_of_a_text_is_a_label_once(rows, length):
    found = list(whole_text_windows(TEXT, rows=rows, length=length, overlap=4))
    given = np.concatenate([one.decoder_input.ids.numpy() for one in found], 1)
    labels = np.concatenate([one.labels.view(rows, -1).numpy() for one in found], 1)
    counted = labels != IGNORE_INDEX
    assert sorted(labels[counted]) == TEXT.tolist()
    before = np.where(labels[counted] == TEXT[0], EOS, labels[counted] - 1)
    assert given[counted].tolist() == before.tolist()
    if rows > 1:  # all but the first row have read four tokens of the text before
        assert counted[0].all()
        assert not counted[1:, :4].any()
        assert given[1, 4] - given[1, 0] == 4
