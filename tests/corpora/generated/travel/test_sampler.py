from random import Random

import pytest

from regard.corpora.generated.travel.clauses import NEVER, NO_MODIFIER
from regard.corpora.generated.travel.lexicon import GOING
from regard.corpora.generated.travel.phrases import spell_phrase
from regard.corpora.generated.travel.sampler import SentenceSampler


def test_the_budget_of_optional_phrases_runs_out():
    talk = SentenceSampler(Random(0))
    talk.start_sentence(2)
    assert [talk.draw_optional(1.0) for _ in range(4)] == [True, True, False, False]
    assert not talk.draw_optional(0.0)


def test_no_name_comes_twice_in_a_sentence():
    talk = SentenceSampler(Random(0))
    names = [talk.name().phrase.french[0].text for _ in range(12)]
    assert len(set(names)) == 12
    talk.start_sentence(0)
    assert talk.name().phrase.french[0].text in names


@pytest.mark.parametrize(
    ("tense", "modifier", "some", "none"),
    [
        ("past", NO_MODIFIER, {"yesterday", "ago", "last"}, {"tomorrow", "next", "on", "every"}),
        (GOING, NO_MODIFIER, {"tomorrow", "next"}, {"yesterday", "ago", "last", "on", "every"}),
        ("present", NO_MODIFIER, {"on", "every"}, {"yesterday", "tomorrow", "last", "next"}),
        ("present", NEVER, {"on"}, {"every", "yesterday", "tomorrow"}),
        ("past", NEVER, {"in"}, {"yesterday", "ago", "last", "on", "every"}),
    ],
)
def test_times_suit_the_tense(tense, modifier, some, none):
    talk = SentenceSampler(Random(0))
    times = [
        spell_phrase(talk.time(tense, modifier)).pair.target.lower().split() for _ in range(300)
    ]
    words = {word for time in times for word in time}
    assert some <= words
    assert not none & words
    assert talk.has_time


def test_no_number_begins_a_sentence():
    talk = SentenceSampler(Random(0))
    times = [talk.time("past", NO_MODIFIER, leading=True).english for _ in range(300)]
    assert "last" in {time[0].text for time in times}
    assert "ago" not in {time[-1].text for time in times}
