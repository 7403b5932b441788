import math
from collections import Counter
from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from regard.text.unigram_sampling import UnigramSampler
from text.lessons import learned

LIKELY = {"a": math.log(0.4), "b": math.log(0.3), "ab": math.log(0.2), "ba": math.log(0.1)}


def shares(cutter, word, draws=20_000):
    """How often each cut comes up."""
    rng = Random(3)
    counts = Counter("|".join(cutter.cut(word, rng)) for _ in range(draws))
    return {cut: count / draws for cut, count in counts.items()}


def all_cuts(word):
    for number in range(len(word)):
        for places in combinations(range(1, len(word)), number):
            edges = [0, *places, len(word)]
            yield [word[i:j] for i, j in pairwise(edges)]


@pytest.mark.parametrize("power", [0.1, 0.5, 1.0])
def test_lattice_cuts_as_likely_as_the_power_of_the_probability(power):
    weights = {
        "|".join(cut): math.exp(power * sum(LIKELY[piece] for piece in cut))
        for cut in all_cuts("abab")
        if all(piece in LIKELY for piece in cut)
    }
    total = sum(weights.values())
    expected = {cut: weight / total for cut, weight in weights.items()}
    assert len(expected) == 5
    assert shares(UnigramSampler(LIKELY, power), "abab") == pytest.approx(expected, abs=0.012)


def test_lattice_takes_a_character_that_no_piece_holds_as_it_is():
    assert UnigramSampler(LIKELY, 50.0).cut("abЖab", Random(0)) == ["ab", "Ж", "ab"]


def test_lattice_shuns_the_unknown():
    assert shares(UnigramSampler({"xy": -3.0}, 1.0), "xy", draws=1000) == {"xy": 1.0}


def test_lattice_takes_long_words():
    word = "ab" * 5000
    assert "".join(UnigramSampler(LIKELY, 0.2).cut(word, Random(0))) == word


@hypothesis_settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet="Janevistsfrcl'éÉ !?12Ж", max_size=50))
def test_without_chance_words_are_cut_as_by_sentencepiece(text):
    tokenizer = learned("unigram")
    cutter = UnigramSampler(tokenizer._scores(), 1e4)
    words = [f" {word}" for word in text.split(" ")] if text else []
    pieces = [piece for word in words for piece in cutter.cut(word, Random(0))]
    [expected] = tokenizer.encode([text])
    assert tokenizer._look_up(pieces) == expected
