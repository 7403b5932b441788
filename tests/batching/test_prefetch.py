import threading
import time
from itertools import count

import pytest

from regard.batching.prefetch import collate_stream, held_out_batches, prefetch
from regard.batching.sampler import StreamPosition, sample_batches
from regard.corpora.token_store import TokenChunk, TokenStore, write_store
from regard.text.special_tokens import EOS


@pytest.fixture
def store(tmp_path):
    sides = [[[4 + n] * (n % most + 1) for n in range(60)] for most in (7, 5)]
    write_store(tmp_path / "s.arrow", [TokenChunk(*sides)], "mark")
    return TokenStore.open(tmp_path / "s.arrow")


def test_pairs_become_batches_at_their_places(store):
    drawn = sample_batches(store, StreamPosition(0, 0), budget=10_000, seed=3, max_tokens=100)
    placed = next(collate_stream(drawn))
    assert placed.next_position == StreamPosition(1, 0)
    assert placed.batch.source.ids.shape == (60, 8)
    assert (placed.batch.labels == EOS).sum() == 60


def test_held_out_pairs_come_once(store):
    batches = list(held_out_batches(store, budget=32))
    assert sum(batch.source.ids.shape[0] for batch in batches) == 60


def test_ahead_gives_the_same_in_order():
    assert list(prefetch(iter(range(100)), 3)) == list(range(100))


def test_ahead_prepares_no_more_than_asked():
    made = []

    def items():
        for n in count():
            made.append(n)
            yield n

    stream = prefetch(items(), 4)
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

    stream = prefetch(items(), 2)
    assert next(stream) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(stream)


def test_ahead_leaves_no_thread_behind():
    before = threading.active_count()
    stream = prefetch(count(), 2)
    next(stream)
    stream.close()
    assert threading.active_count() == before
