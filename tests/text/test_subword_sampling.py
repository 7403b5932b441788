import math
from collections import Counter
from itertools import combinations, pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from regard.text.ragged import Ragged, flatten
from regard.text.subword_sampling import BpeDropout, UnigramSampler
from text.lessons import TEXTS, learned

RANKED = ["ab", "bc", "abc", "a", "b", "c"]
NEVER = 1e-12


class Vocabulary:
    """Pieces that were learned in this order."""

    def __init__(self, pieces, others=4):
        self.ids = {piece: i for i, piece in enumerate(pieces, start=others)}
        self.scores = {piece: -float(i) for i, piece in enumerate(pieces)}
        self.size = len(pieces) + others

    def dropout(self, probability):
        return BpeDropout(self.ids, self.scores, self.size, probability)

    def merges(self, symbols):
        """What the possible merges make of some symbols, the best first."""
        found = [
            (-self.scores[left + right], place)
            for place, (left, right) in enumerate(pairwise(symbols))
            if left + right in self.scores
        ]
        return [
            (*symbols[:place], symbols[place] + symbols[place + 1], *symbols[place + 2 :])
            for _, place in sorted(found)
        ]

    def cut(self, word):
        """The one cut without chance."""
        symbols = tuple(word)
        while merged := self.merges(symbols):
            symbols = merged[0]
        return symbols

    def chances(self, symbols, p):
        """Algorithm 1 of Provilkov et al. 2020, by its letter: how likely each cut is."""
        chances, missed = Counter(), 1.0
        for merged in self.merges(symbols):
            for cut, rng in self.chances(merged, p).items():
                chances[cut] += missed * (1 - p) * rng
            missed *= p
        chances[symbols] += missed
        return chances


def shares(vocabulary, word, p, draws=40_000):
    """How often each segmentation comes up when `word` is cut so often at once."""
    given = [vocabulary.ids[piece] for piece in vocabulary.cut(word)]
    found = vocabulary.dropout(p).sample(flatten([given] * draws), 3)
    spelled = {i: piece for piece, i in vocabulary.ids.items()}
    counts = Counter(tuple(spelled[i] for i in row.tolist()) for row in found.rows())
    return {cut: count / draws for cut, count in counts.items()}


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_merges_are_left_out_at_each_step(p):
    # First ab unless it is dropped, then bc unless that is dropped; then abc, likewise.
    q = 1 - p
    expected = {"abc": q * q + p * q * q, "ab|c": q * p, "a|bc": p * q * p, "a|b|c": p * p}
    found = {"|".join(cut): share for cut, share in shares(Vocabulary(RANKED), "abc", p).items()}
    assert found == pytest.approx(expected, abs=0.012)


@pytest.mark.parametrize("p", [0.1, 0.4, 0.8])
@pytest.mark.parametrize(
    ("pieces", "word"),
    [
        (["ab", "cd", "abcd", "bc", "abc", *"abcd"], "abcd"),
        (["cd", "ab", "bc", "bcd", *"abcd"], "abcdabc"),  # several pieces, some alike
        (["xy", "yz", "xyz", "zx", *"xyz"], "xyzxyz"),
        (["bc", "abc", "ab", *"abc"], "ababcb"),  # after a worse merge comes a better one
        (["aa", "aaa", "aaaa", "a"], "aaaaaaa"),
    ],
)
def test_cuts_are_as_likely_as_by_the_letter_of_the_algorithm(pieces, word, p):
    vocabulary = Vocabulary(pieces)
    expected = vocabulary.chances(tuple(word), p)
    found = shares(vocabulary, word, p)
    assert len(expected) > 4
    for cut, rng in expected.items():
        spread = (rng * (1 - rng) / 40_000) ** 0.5
        assert found.get(cut, 0.0) == pytest.approx(rng, abs=5 * spread + 1e-4), cut
    assert set(found) <= set(expected)


def test_the_first_merge_left_out_is_found_whatever_piece_it_is_in():
    # As likely as by the letter, over words of a real vocabulary with many merges in some pieces.
    tokenizer = learned("bpe", sampling=0.2)
    scores = {piece: tokenizer._processor.get_score(i) for piece, i in tokenizer._ids.items()}
    pieces = sorted(tokenizer._ids, key=scores.__getitem__, reverse=True)
    vocabulary = Vocabulary(pieces)
    for word in (" septembre", " l'Europe", " visited"):
        expected = vocabulary.chances(tuple(word), 0.2)
        found = shares(vocabulary, word, 0.2, draws=20_000)
        distance = sum(abs(found.get(cut, 0.0) - rng) for cut, rng in expected.items()) / 2
        assert distance < 0.03, word


def test_words_are_parted_by_spaces_and_texts():
    vocabulary = Vocabulary([" a", "aa", " ", "a"])
    ids = vocabulary.ids
    given = flatten([[ids[" a"], ids[" a"]], [ids["a"]], [], [ids["a"], ids[" "]]])
    seen = set()
    for seed in range(200):
        found = vocabulary.dropout(0.5).sample(given, seed)
        rows = [tuple(row.tolist()) for row in found.rows()]
        assert rows[1:] == [(ids["a"],), (), (ids["a"], ids[" "])]
        seen.add(rows[0])
    apart = (ids[" "], ids["a"])
    whole = (ids[" a"],)
    assert seen == {first + second for first in (apart, whole) for second in (apart, whole)}


def test_what_is_no_text_stays_as_it_is():
    vocabulary = Vocabulary(RANKED)
    given = flatten([[0, 1, vocabulary.ids["abc"], 2, 3]])
    for seed in range(20):
        found = vocabulary.dropout(0.9).sample(given, seed).ids.tolist()
        assert found[:2] == [0, 1]
        assert found[-2:] == [2, 3]


def test_a_piece_that_its_letters_never_make_is_left_whole():
    vocabulary = Vocabulary(["abc", "ax", "a", "b", "c"])
    given = flatten([[vocabulary.ids["abc"], vocabulary.ids["ax"]]])
    found = vocabulary.dropout(0.9).sample(given, 0)
    assert found.ids.tolist() == given.ids.tolist()


def test_letters_alone_are_a_vocabulary():
    given = flatten([[4, 5], [5]])
    found = Vocabulary(["a", "b"]).dropout(0.5).sample(given, 0)
    assert [row.tolist() for row in found.rows()] == [[4, 5], [5]]


@pytest.mark.parametrize("rows", [[], [[]], [[], []]])
def test_nothing_is_nothing(rows):
    found = Vocabulary(RANKED).dropout(0.5).sample(flatten(rows), 0)
    assert [row.tolist() for row in found.rows()] == rows


def test_each_text_is_cut_by_chances_of_its_own():
    vocabulary = Vocabulary(RANKED)
    given = flatten([[vocabulary.ids["abc"]]] * 50)
    found = vocabulary.dropout(0.5).sample(given, 0)
    assert len({tuple(row.tolist()) for row in found.rows()}) == 4


def test_little_chance_changes_nothing():
    tokenizer = learned("bpe", sampling=NEVER)
    given = flatten(tokenizer.encode(TEXTS))
    found = tokenizer.sample_segmentation(given, 1)
    assert isinstance(found, Ragged)
    assert found.ids.dtype == np.int32
    assert found.ids.tolist() == given.ids.tolist()
    assert found.counts.tolist() == given.counts.tolist()


LIKELY = {"a": math.log(0.4), "b": math.log(0.3), "ab": math.log(0.2), "ba": math.log(0.1)}


def word_shares(sampler, word, draws=20_000):
    """How often each cut comes up."""
    rng = Random(3)
    counts = Counter("|".join(sampler.sample_word(word, rng)) for _ in range(draws))
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
    assert word_shares(UnigramSampler(LIKELY, power), "abab") == pytest.approx(expected, abs=0.012)


def test_lattice_takes_a_character_that_no_piece_holds_as_it_is():
    assert UnigramSampler(LIKELY, 50.0).sample_word("abЖab", Random(0)) == ["ab", "Ж", "ab"]


def test_lattice_shuns_the_unknown():
    assert word_shares(UnigramSampler({"xy": -3.0}, 1.0), "xy", draws=1000) == {"xy": 1.0}


def test_lattice_takes_long_words():
    word = "ab" * 5000
    assert "".join(UnigramSampler(LIKELY, 0.2).sample_word(word, Random(0))) == word


@hypothesis_settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet="Janevistsfrcl'éÉ !?12Ж", max_size=50))
def test_a_high_power_yields_the_segmentation_of_sentencepiece(text):
    tokenizer = learned("unigram", sampling=0.5)
    tables = tokenizer._ids, tokenizer._id_bytes, tokenizer._byte_ids
    ids = tokenizer.encode([text])
    sampler = UnigramSampler(tokenizer._sampler._scores, 1e4, *tables)
    assert [row.tolist() for row in sampler.sample(flatten(ids), 0).rows()] == ids
