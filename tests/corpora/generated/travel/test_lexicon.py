import pytest

from regard.corpora.generated.travel.lexicon import (
    COUNTRIES,
    KIN,
    LONG_ADJECTIVES,
    MOODS,
    ROLES,
    SIGHTS,
    SMALL_ADJECTIVES,
    THINGS,
    VERBS,
)

ADJECTIVES = SMALL_ADJECTIVES + LONG_ADJECTIVES + MOODS


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.infinitive)
def test_verbs_have_the_endings_of_their_persons(verb):
    _, tu, _, nous, vous, ils = verb.present
    assert tu.endswith("s")
    assert nous.endswith("ons")
    assert vous.endswith("ez")
    assert ils.endswith("nt")
    assert verb.english[1].endswith("s")
    assert verb.with_etre or not verb.reflexive


@pytest.mark.parametrize("noun", SIGHTS + THINGS + KIN + ROLES, ids=lambda noun: noun.french[0])
def test_plurals_are_plural(noun):
    assert noun.french[1].endswith(("s", "x"))
    assert noun.english[0] != noun.english[1]


@pytest.mark.parametrize("word", ADJECTIVES, ids=lambda word: word.french[0])
def test_adjectives_agree(word):
    _, feminine, many, feminine_many = word.french
    assert feminine.endswith("e")
    assert feminine_many == f"{feminine}s"
    assert many.endswith(("s", "x"))


def test_countries_have_articles():
    assert {place.article for place in COUNTRIES} == {"la", "le", "les"}
    assert all((place.article == "les") == place.english.startswith("the ") for place in COUNTRIES)
