from random import Random

import pytest

from regard.corpora.generated.travel.clauses import NEVER, NO_MODIFIER, Subject
from regard.corpora.generated.travel.lexicon import GOING, LONG_ADJECTIVES, SMALL_ADJECTIVES, Place
from regard.corpora.generated.travel.phrases import aligned
from regard.corpora.generated.travel.sampler import (
    SentenceSampler,
    compare,
    place_name,
    place_phrase,
    pronoun_for,
)
from regard.corpora.generated.travel.spelling import spell_phrase

FRANCE, JAPAN = Place("la", "France", "France"), Place("le", "Japon", "Japan")
ITALY, ROME = Place("la", "Italie", "Italy"), Place("", "Rome", "Rome")
AMERICA = Place("les", "États-Unis", "the United States")


@pytest.mark.parametrize(
    ("preposition", "place", "french", "english"),
    [
        ("in", FRANCE, "En France", "In France"),
        ("to", JAPAN, "Au Japon", "To Japan"),
        ("in", AMERICA, "Aux États-Unis", "In the United States"),
        ("to", ROME, "À Rome", "To Rome"),
        ("from", FRANCE, "De France", "From France"),
        ("from", ITALY, "D'Italie", "From Italy"),
        ("from", JAPAN, "Du Japon", "From Japan"),
        ("from", AMERICA, "Des États-Unis", "From the United States"),
    ],
)
def test_places_have_their_prepositions(preposition, place, french, english):
    assert spell_phrase(place_phrase(preposition, place)).pair == (french, english)


@pytest.mark.parametrize(
    ("place", "french", "english"),
    [
        (ITALY, "L'Italie", "Italy"),
        (ROME, "Rome", "Rome"),
        (AMERICA, "Les États-Unis", "The United States"),
    ],
)
def test_places_have_their_articles(place, french, english):
    assert spell_phrase(place_name(place)).pair == (french, english)


@pytest.mark.parametrize(
    ("adjective", "french", "english", "sure"),
    [
        (SMALL_ADJECTIVES[0], "Plus grande que Rome", "Bigger than Rome", "00 10 21 32"),
        (LONG_ADJECTIVES[1], "Plus célèbre que Rome", "More famous than Rome", "00 11 22 33"),
    ],
)
def test_comparison(adjective, french, english, sure):
    subject = Subject(aligned("elle", "she"), 2, "f")
    pair, gold = spell_phrase(compare(adjective, subject, place_name(ROME)))
    assert pair == (french, english)
    assert " ".join(f"{s}{t}" for s, t in sorted(gold.sure)) == sure


def test_again_is_the_pronoun():
    assert spell_phrase(pronoun_for(Subject(aligned("Jane", "Jane"), 2, "f")).phrase).pair == (
        "Elle",
        "She",
    )


def test_again_needs_a_gender():
    with pytest.raises(ValueError, match="no pronoun"):
        pronoun_for(Subject(aligned("qui", "who"), 2, None))


def test_room_runs_out():
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


def test_no_number_leads():
    talk = SentenceSampler(Random(0))
    times = [talk.time("past", NO_MODIFIER, leading=True).english for _ in range(300)]
    assert "last" in {time[0].text for time in times}
    assert "ago" not in {time[-1].text for time in times}
