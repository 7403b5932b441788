import math
from collections import Counter

import pytest
import torch
from pydantic import ValidationError

from decoding.tables import HistoryTable, Markov, markov
from regard.decoding.batch_search import search
from regard.decoding.search.sampling import draw, top_k, top_p
from regard.decoding.settings import DecodingSettings, RuleSettings, SamplingSettings
from regard.text.special_tokens import BOS, EOS

WORDS, LIMIT = 3, 4
NEG_INF = float("-inf")
LENGTHS = torch.tensor([5])


def decoding(n_best=1, *, rules=None, **sampling):
    rules = {"max_length": LIMIT, "max_length_offset": LIMIT} | (rules or {})
    return DecodingSettings(
        n_best=n_best,
        sampling=SamplingSettings(**sampling),
        rules=RuleSettings.model_validate(rules),
    )


def chi_square(counts, probabilities, total):
    return sum(
        (counts[key] - total * p) ** 2 / (total * p) for key, p in probabilities.items() if p
    )


def test_answers_come_as_often_as_they_are_likely():
    table = {BOS: {EOS: 0.2, 4: 0.5, 5: 0.3}, 4: {EOS: 0.6, 5: 0.4}, 5: {EOS: 1.0}}
    probabilities = {(): 0.2, (5,): 0.3, (4,): 0.3, (4, 5): 0.2}
    num = 4000
    (found,) = search(Markov(), markov(table), LENGTHS, decoding(num, seed=7))
    counts = Counter(h.tokens for h in found)
    assert set(counts) == set(probabilities)
    assert len(found) == num
    assert chi_square(counts, probabilities, num) < 16.3  # 3 degrees of freedom: p = 0.001


def test_temperature_sharpens_and_flattens():
    table = {BOS: {4: 0.8, 5: 0.2}, 4: {EOS: 1.0}, 5: {EOS: 1.0}}
    num = 2000
    for temperature in (0.5, 2.0):
        settings = decoding(num, temperature=temperature)
        (found,) = search(Markov(), markov(table), LENGTHS, settings)
        narrowed, other = 0.8 ** (1 / temperature), 0.2 ** (1 / temperature)
        share = narrowed / (narrowed + other)
        counts = Counter(h.tokens for h in found)
        assert chi_square(counts, {(4,): share, (5,): 1 - share}, num) < 10.8  # p = 0.001
        assert {h.tokens: h.log_probability for h in found} == {
            (4,): pytest.approx(math.log(0.8)),
            (5,): pytest.approx(math.log(0.2)),
        }


def test_filters_narrow_what_is_drawn():
    table = {BOS: {EOS: 0.9, 4: 0.05, 5: 0.05}, 4: {EOS: 1.0}, 5: {EOS: 1.0}}
    settings = decoding(200, rules={"min_length": 1})
    (found,) = search(Markov(), markov(table), LENGTHS, settings)
    assert {h.tokens for h in found} == {(4,), (5,)}


def test_top_one_is_greedy():
    decoder = HistoryTable(6, WORDS, LIMIT)
    lengths = LENGTHS.expand(6)
    greedy = DecodingSettings.model_validate(
        {"beam": {"size": 1}, "rules": {"max_length": LIMIT, "max_length_offset": LIMIT}}
    )
    want = search(decoder, decoder.start(), lengths, greedy)
    found = search(decoder, decoder.start(), lengths, decoding(3, top_k=1))
    for drawn, (best,) in zip(found, want, strict=True):
        assert {h.tokens for h in drawn} == {best.tokens}


def test_top_k():
    logits = torch.tensor([[0.0, 3.0, 1.0, 2.0], [1.0, 1.0, 0.0, NEG_INF]])
    assert top_k(logits, 2).tolist() == [[NEG_INF, 3.0, NEG_INF, 2.0], [1.0, 1.0, NEG_INF, NEG_INF]]
    assert top_k(logits, 9).equal(logits)
    assert top_k(logits, 1)[1].tolist() == [1.0, 1.0, NEG_INF, NEG_INF]


@pytest.mark.parametrize(
    ("p", "kept"),
    [
        (0.1, {1}),
        (0.49, {1}),
        (0.51, {1, 3}),
        (0.79, {1, 3}),
        (0.81, {1, 3, 0}),
        (1.0, {0, 1, 2, 3}),
    ],
)
def test_top_p_keeps_the_fewest_that_reach_p(p, kept):
    logits = torch.tensor([0.15, 0.5, 0.05, 0.3]).double().log().expand(2, 3, 4)
    got = top_p(logits, p)
    assert {place for place in range(4) if got[1, 2, place] > NEG_INF} == kept
    assert got[got > NEG_INF].equal(logits[got > NEG_INF])


def test_draw_takes_the_token_on_whose_share_the_number_falls():
    logits = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0]).log().expand(2, 3, 6)
    uniform = torch.tensor([[0.0, 0.2, 0.25], [0.7, 0.75, 1 - 2**-24]])
    assert draw(logits, uniform).tolist() == [[1, 1, 3], [3, 4, 4]]


def test_the_largest_number_never_falls_outside():
    torch.manual_seed(0)
    logits = torch.randn(500, 300)
    logits[:, -5:] = NEG_INF
    assert draw(logits, torch.full((500,), 1 - 2**-24)).max() < 295


def test_same_seed_same_answers_other_seed_others():
    decoder = HistoryTable(8, WORDS, LIMIT)
    lengths = LENGTHS.expand(8)
    first, again, other = (
        search(decoder, decoder.start(), lengths, decoding(seed=seed)) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("n_best", [1, 5])
def test_batch_and_neighbours_change_nothing(n_best):
    decoder = HistoryTable(7, WORDS, LIMIT)
    settings = decoding(n_best, top_p=0.9, temperature=1.3)
    together = search(decoder, decoder.start(), LENGTHS.expand(7), settings)
    order = [5, 0, 3]
    apart = search(decoder, decoder.start(order), LENGTHS.expand(3), settings, numbers=order)
    assert apart == [together[n] for n in order]


def test_sentences_and_samples_are_drawn_apart():
    decoder = HistoryTable(1, WORDS, LIMIT)
    rules = {"max_length": 8, "min_length": 7, "max_length_offset": 8}
    settings = decoding(4, rules=rules)
    found = search(decoder, decoder.start([0, 0]), LENGTHS.expand(2), settings)
    assert len({h.tokens for answers in found for h in answers}) == 8


def test_fewer_samples_are_some_of_the_more():
    decoder = HistoryTable(2, WORDS, LIMIT)
    lengths = LENGTHS.expand(2)
    few = search(decoder, decoder.start(), lengths, decoding(2))
    many = search(decoder, decoder.start(), lengths, decoding(6))
    for some, others in zip(few, many, strict=True):
        assert not Counter(h.tokens for h in some) - Counter(h.tokens for h in others)


def test_settings_out_of_range():
    with pytest.raises(ValidationError, match="greater than 0"):
        SamplingSettings(temperature=0.0)
    with pytest.raises(ValidationError, match="less than or equal to 1"):
        SamplingSettings(top_p=1.1)
