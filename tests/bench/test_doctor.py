"""`bench doctor` damages what it says, as often as it says."""

import random

import pytest

from bench.doctor import (
    CASES,
    CorpusSample,
    cut_targets,
    exchange_sides,
    leak,
    look_at,
    pair_by_chance,
    put_invisible,
    put_odd_spaces,
    replace_targets,
)
from regard.corpora.corpus import Pair
from regard.corpora.pairs.build import CorpusSettings

SAMPLE = CorpusSample(
    [Pair(f"one two {n}.", f"eins zwei drei {n}.") for n in range(20)],
    [Pair(f"test {n}.", f"Test {n}.") for n in range(10)],
    [f"un deux {n}" for n in range(9)],
)
WRONG = {
    exchange_sides: lambda old, new: new == old[::-1],
    replace_targets: lambda old, new: new[0] == old[0] and new[1] in SAMPLE.foreign,
    pair_by_chance: lambda old, new: new[0] == old[0] and new[1] in {b for _, b in SAMPLE.train},
    cut_targets: lambda old, new: new == (old[0], "eins zwei"),
    put_odd_spaces: lambda old, new: new[0].replace("\u00a0", " ") == old[0] and new[1] == old[1],
    put_invisible: lambda old, new: new[0].replace("\u200b", "") == old[0] and new[1] == old[1],
}


@pytest.mark.parametrize("damage", WRONG, ids=lambda damage: damage.__name__)
def test_a_share_is_damaged_and_the_rest_is_not(damage):
    damaged = damage(SAMPLE, 0.2, random.Random(1))
    changed = [
        (old, new) for old, new in zip(SAMPLE.train, damaged.train, strict=True) if old != new
    ]
    assert len(changed) == 4
    assert all(WRONG[damage](old, new) for old, new in changed)
    assert damaged.test == SAMPLE.test


def test_leaks_are_test_sentences_with_another_case_and_stop():
    damaged = leak(SAMPLE, 0.2, random.Random(1))
    assert damaged.train[:20] == SAMPLE.train
    leaked = damaged.train[20:]
    assert len(leaked) == 2
    assert all(
        Pair(f"test {one.source[5]}.", f"Test {one.source[5]}.") in SAMPLE.test for one in leaked
    )
    assert {one.source[:5] + one.source[6:] for one in leaked} == {"TEST !!"}


def test_an_examination_tells_of_what_a_surface_shows():
    settings = CorpusSettings(name="travel")
    told = {case.what: case.told for case in CASES}
    for what, damage in (
        ("sources with a no-break space", put_odd_spaces),
        ("sources with a zero-width space", put_invisible),
        ("test sentences in train, case and stop changed", leak),
    ):
        assert told[what](look_at(SAMPLE, settings)) == 0
        assert told[what](look_at(damage(SAMPLE, 0.2, random.Random(1)), settings)) > 0
