import random

import pytest

from regard.corpora.corpus import Pair
from regard.corpora.diagnostics.misalignment import (
    MAX_SHIFT,
    MIN_LINES,
    MIN_UNRELATED_WINDOWS,
    WINDOW_LINES,
    LineAlignmentScan,
    MisalignedLines,
)

NAMES = ["Kilimanjaro", "Valparaiso", "Samarkand", "Reykjavik", "Timbuktu", "Zanzibar"]


def sides(count, *, seed=1, spread=0.4, names=0.0):
    """Sources and targets of similar lengths, some with a name in common, at random."""
    chance = random.Random(seed)
    sources, targets = [], []
    for _ in range(count):
        length = max(2, round(30 * chance.lognormvariate(0, spread)))
        name = f" {chance.choice(NAMES)}" if chance.random() < names else ""
        sources.append("ab" * length + name)
        targets.append("xy" * max(1, round(length * chance.lognormvariate(0.1, 0.15))) + name)
    return sources, targets


def scan(sources, targets):
    found = LineAlignmentScan()
    for pair in zip(sources, targets, strict=True):
        found.add(Pair(*pair))
    return found.result()


def test_translations_are_in_step():
    found = scan(*sides(3 * WINDOW_LINES + 7))
    assert found.stretches == ()
    assert found.correlation == pytest.approx(0.93, abs=0.05)


@pytest.mark.parametrize("shift", [-3, -1, 1, 2])
def test_a_shifted_stretch_is_found_where_it_is(shift):
    sources, targets = sides(1500)
    if shift > 0:  # so many targets too many from line 500 on, and as many lost at line 1100
        moved = targets[:500] + ["zz"] * shift + targets[500 : 1100 - shift] + targets[1100:]
    else:
        moved = targets[:500] + targets[500 - shift : 1100] + ["zz"] * -shift + targets[1100:]
    [stretch] = scan(sources, moved).stretches
    assert stretch.shift == shift
    assert stretch.first == pytest.approx(501, abs=20)
    assert stretch.last == pytest.approx(1100, abs=20)


def test_a_shift_from_some_line_to_the_end():
    sources, targets = sides(1000)
    [stretch] = scan(sources, [*targets[:300], *targets[301:], "zz"]).stretches
    assert (stretch.shift, stretch.last) == (-1, 1000)
    assert stretch.first == pytest.approx(301, abs=20)


def test_common_words_tell_where_lengths_do_not():
    sources, targets = sides(1000, spread=0.0, names=0.5)
    assert scan(sources, targets).stretches == ()
    moved = [*targets[:400], *targets[401:], "xy"]
    [stretch] = scan(sources, moved).stretches
    assert (stretch.shift, stretch.last) == (-1, 1000)
    assert stretch.first == pytest.approx(401, abs=WINDOW_LINES)


def test_lines_that_belong_to_none_near_them():
    sources, targets = sides(10 * WINDOW_LINES)
    half = 5 * WINDOW_LINES
    tail = targets[half:]
    random.Random(2).shuffle(tail)
    [stretch] = scan(sources, targets[:half] + tail).stretches
    assert (stretch.shift, stretch.last) == (None, 10 * WINDOW_LINES)
    assert stretch.first == pytest.approx(half, abs=WINDOW_LINES)


def test_a_shuffled_corpus_is_one_unrelated_stretch():
    sources, targets = sides(20 * WINDOW_LINES)
    random.Random(2).shuffle(targets)
    found = scan(sources, targets)
    assert found.stretches == (MisalignedLines(1, 20 * WINDOW_LINES, None),)
    assert found.correlation == pytest.approx(0, abs=0.1)


def test_a_small_corpus_is_judged_whole():
    sources, targets = sides(MIN_LINES + 2 * MAX_SHIFT + 20)
    [stretch] = scan(sources[1:], targets[:-1]).stretches
    assert stretch == MisalignedLines(1, len(sources) - 1, 1)


def test_of_very_few_pairs_nothing_is_said():
    sources, targets = sides(MIN_LINES - 1)
    found = scan(sources[1:], targets[:-1])
    assert (found.correlation, found.stretches) == (None, ())


def test_lengths_that_do_not_vary_say_nothing():
    sources, _ = sides(2 * WINDOW_LINES)
    found = scan(sources, ["2024-05-01"] * len(sources))
    assert (found.correlation, found.stretches) == (None, ())


def test_a_corpus_sorted_by_length_is_in_step():
    pairs = sorted(zip(*sides(1000), strict=True), key=lambda pair: len(pair[0]))
    assert scan(*zip(*pairs, strict=True)).stretches == ()


def test_numbers_agree_in_any_order_and_grouping():
    found = scan(
        ["on 3 May 1999", "1,000 men", "room 12", "no number", "7"],
        ["le 1999-3 mai", "1000 hommes", "chambre 21 ou 22", "12", "sept"],
    )
    assert (found.with_numbers, found.numbers_unlike) == (3, 1)


def test_what_is_kept_does_not_grow():
    found = LineAlignmentScan()
    sources, targets = sides(9 * WINDOW_LINES)
    targets[4 * WINDOW_LINES :] = random.Random(2).sample(
        targets[4 * WINDOW_LINES :], k=5 * WINDOW_LINES
    )
    for pair in zip(sources, targets, strict=True):
        found.add(Pair(*pair))
        assert len(found._lines) <= (MIN_UNRELATED_WINDOWS + 2) * WINDOW_LINES


@pytest.mark.parametrize("digits", ["１２", "12", "١٢"])
def test_digits_of_any_width_and_script_are_alike(digits):
    scan = LineAlignmentScan()
    scan.add(Pair("12 cats", f"{digits}匹の猫"))
    scan.add(Pair("12 cats", "13"))
    found = scan.result()
    assert (found.with_numbers, found.numbers_unlike) == (2, 1)
