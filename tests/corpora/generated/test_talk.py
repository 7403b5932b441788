from random import Random

import pytest

from regard.corpora.generated.clauses import NEVER, NO_MIDDLE, Subject
from regard.corpora.generated.lexicon import GOING, LONG_ADJECTIVES, SMALL_ADJECTIVES, Place
from regard.corpora.generated.phrases import say
from regard.corpora.generated.spelling import write
from regard.corpora.generated.talk import Talk, again, compare, place_name, place_phrase

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
    assert write(place_phrase(preposition, place)).pair == (french, english)


@pytest.mark.parametrize(
    ("place", "french", "english"),
    [
        (ITALY, "L'Italie", "Italy"),
        (ROME, "Rome", "Rome"),
        (AMERICA, "Les États-Unis", "The United States"),
    ],
)
def test_places_have_their_articles(place, french, english):
    assert write(place_name(place)).pair == (french, english)


@pytest.mark.parametrize(
    ("adjective", "french", "english", "sure"),
    [
        (SMALL_ADJECTIVES[0], "Plus grande que Rome", "Bigger than Rome", "00 10 21 32"),
        (LONG_ADJECTIVES[1], "Plus célèbre que Rome", "More famous than Rome", "00 11 22 33"),
    ],
)
def test_comparison(adjective, french, english, sure):
    subject = Subject(say("elle", "she"), 2, "f")
    pair, gold = write(compare(adjective, subject, place_name(ROME)))
    assert pair == (french, english)
    assert " ".join(f"{s}{t}" for s, t in sorted(gold.sure)) == sure


def test_again_is_the_pronoun():
    assert write(again(Subject(say("Jane", "Jane"), 2, "f")).phrase).pair == ("Elle", "She")


def test_again_needs_a_gender():
    with pytest.raises(ValueError, match="no pronoun"):
        again(Subject(say("qui", "who"), 2, None))


def test_room_runs_out():
    talk = Talk(Random(0))
    talk.begin(2)
    assert [talk.room(1.0) for _ in range(4)] == [True, True, False, False]
    assert not talk.room(0.0)


def test_no_name_comes_twice_in_a_sentence():
    talk = Talk(Random(0))
    names = [talk.name().phrase.french[0].text for _ in range(12)]
    assert len(set(names)) == 12
    talk.begin(0)
    assert talk.name().phrase.french[0].text in names


@pytest.mark.parametrize(
    ("tense", "middle", "some", "none"),
    [
        ("past", NO_MIDDLE, {"yesterday", "ago", "last"}, {"tomorrow", "next", "on", "every"}),
        (GOING, NO_MIDDLE, {"tomorrow", "next"}, {"yesterday", "ago", "last", "on", "every"}),
        ("present", NO_MIDDLE, {"on", "every"}, {"yesterday", "tomorrow", "last", "next"}),
        ("present", NEVER, {"on"}, {"every", "yesterday", "tomorrow"}),
        ("past", NEVER, {"in"}, {"yesterday", "ago", "last", "on", "every"}),
    ],
)
def test_times_suit_the_tense(tense, middle, some, none):
    talk = Talk(Random(0))
    times = [write(talk.time(tense, middle)).pair.target.lower().split() for _ in range(300)]
    words = {word for time in times for word in time}
    assert some <= words
    assert not none & words
    assert talk.timed


def test_no_number_leads():
    talk = Talk(Random(0))
    times = [talk.time("past", NO_MIDDLE, leading=True).english for _ in range(300)]
    assert "last" in {time[0].text for time in times}
    assert "ago" not in {time[-1].text for time in times}
