import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.corpora import dedup
from regard.corpora.dedup import HashSet, hash_texts

BATCHES = st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=12)


@given(BATCHES)
def test_answers_as_a_set_would(batches):
    ours, plain = HashSet(), set()
    for batch in batches:
        hashes = np.array(batch, np.uint64)
        held = [number in plain for number in batch]
        new = []
        for number in batch:
            new.append(number not in plain)
            plain.add(number)
        assert ours.contains(hashes).tolist() == held
        assert ours.add_new(hashes).tolist() == new
        assert len(ours) == len(plain)


@pytest.mark.parametrize("block", [64, 1 << 23])
def test_blocks_stay_few_and_bounded(block, monkeypatch):
    monkeypatch.setattr(dedup, "MAX_BLOCK_HASHES", block)
    ours, numbers = HashSet(), np.random.default_rng(1).permutation(1000).astype(np.uint64)
    for batch in np.split(numbers, 200):
        assert ours.add_new(batch).all()
    sizes = [len(part) for part in ours._blocks]
    assert sum(sizes) == len(ours) == 1000
    assert max(sizes) <= block
    assert len(sizes) < (60 if block == 64 else 10)
    assert ours.contains(numbers).all()
    assert not ours.contains(numbers + np.uint64(1000)).any()


def test_costs_about_eight_bytes_each(monkeypatch):
    monkeypatch.setattr(dedup, "MAX_BLOCK_HASHES", 1 << 15)
    ours, random = HashSet(), np.random.default_rng(1)
    tracemalloc.start()
    for _ in range(50):
        ours.add_new(random.integers(1 << 63, size=8192, dtype=np.uint64))
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(ours) == 50 * 8192
    assert now < 9 * len(ours)
    assert peak < 12 * len(ours)


def test_hashes_are_of_the_text_and_the_seed():
    one, other = hash_texts(["a", "b", "a", ""]), hash_texts(["a", "b", "a", ""], seed=7)
    assert one.dtype == np.uint64
    assert one.tolist()[0] == one.tolist()[2]
    assert len({*one.tolist(), *other.tolist()}) == 6
    assert hash_texts([]).shape == (0,)


def test_hashes_are_the_same_on_every_machine():
    assert hash_texts(["regard"]).tolist() == [1131205468316746946]


def test_any_string_has_a_hash():
    assert hash_texts(["\ud800"]).shape == (1,)
