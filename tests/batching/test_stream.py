import threading
import time
from itertools import count, islice

import pytest

from regard.batching.stream import (
    Position,
    Turn,
    ahead,
    fits,
    held_out_batches,
    training_batches,
)
from regard.corpora.pairs import Pair
from regard.corpora.store import TokenChunk, TokenPair, TokenStore, write_store

START = Position(0, 0)


@pytest.fixture
def store(tmp_path):
    texts = [Pair("a" * (n % 7 + 1), "b" * (n % 5 + 1)) for n in range(60)]
    columns = zip(*texts, strict=True)
    ids = [[[4 + n] * len(side) for n, side in enumerate(column)] for column in columns]
    write_store(tmp_path / "s.arrow", [TokenChunk(*ids, texts)], "mark", with_text=True)
    return TokenStore.open(tmp_path / "s.arrow")


def stream(store, start=START, **changed):
    settings = {"budget": 32, "seed": 3, "max_tokens": 100, **changed}
    return training_batches(store, start, **settings)


def numbers(placed):
    return placed.batch.source.ids.tolist(), placed.batch.labels.tolist(), placed.after


def test_taken_up_anywhere_it_goes_on_the_same(store):
    whole = [numbers(p) for p in islice(stream(store), 40)]
    assert {after.epoch for *_, after in whole} >= {0, 1}, "the test should cross an epoch"
    for skipped in (1, 7, 23):
        rest = stream(store, whole[skipped - 1][2])
        assert [numbers(p) for p in islice(rest, 40 - skipped)] == whole[skipped:]


@pytest.mark.parametrize("makers", [2, 3, 5])
def test_makers_that_take_turns_make_the_same_stream(store, makers):
    start = Position(0, 4)
    whole = [numbers(p) for p in islice(stream(store, start), 40)]
    assert {after.epoch for *_, after in whole} >= {0, 1}, "the test should cross an epoch"
    streams = [stream(store, start, turn=Turn(number, makers)) for number in range(makers)]
    assert [numbers(next(streams[at % makers])) for at in range(40)] == whole


def test_an_epoch_holds_every_pair_once(store):
    firsts = []
    for placed in stream(store):
        firsts += placed.batch.source.ids[:, 0].tolist()
        if placed.after.epoch == 1:
            break
    assert sorted(firsts) == list(range(4, 64))


def test_long_pairs_are_left_out(store):
    placed = next(iter(stream(store, max_tokens=2, budget=10_000)))
    assert placed.after == Position(1, 0)
    assert placed.batch.source.ids.shape[0] == fits(store.lengths(), 2).sum() < 60
    assert placed.batch.source.mask.sum(1).max() == 3  # two tokens and EOS


def test_sampling_depends_on_the_place_in_the_stream_alone(store):
    def sample(texts, seed):
        return [TokenPair([seed % 1000 + 4], [seed % 7 + 4]) for _ in texts]

    whole = [numbers(p) for p in islice(stream(store, sample=sample), 20)]
    again = [numbers(p) for p in islice(stream(store, whole[9][2], sample=sample), 10)]
    assert again == whole[10:]
    assert len({str(ids) for ids, *_ in whole}) > 10


def test_held_out_pairs_come_once(store):
    batches = list(held_out_batches(store, budget=32))
    assert sum(batch.source.ids.shape[0] for batch in batches) == 60


def test_ahead_gives_the_same_in_order():
    assert list(ahead(iter(range(100)), 3)) == list(range(100))


def test_ahead_prepares_no_more_than_asked():
    made = []

    def items():
        for n in count():
            made.append(n)
            yield n

    stream = ahead(items(), 4)
    assert next(stream) == 0
    deadline = time.monotonic() + 5
    while len(made) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert 5 <= len(made) <= 6
    stream.close()


def test_ahead_hands_on_errors():
    def items():
        yield 1
        raise OSError("the disk is gone")

    stream = ahead(items(), 2)
    assert next(stream) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(stream)


def test_ahead_leaves_no_thread_behind():
    before = threading.active_count()
    stream = ahead(count(), 2)
    next(stream)
    stream.close()
    assert threading.active_count() == before
