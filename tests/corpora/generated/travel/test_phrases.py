import pytest

from regard.corpora.generated.travel.phrases import (
    EMPTY,
    aligned,
    arrange,
    join,
    spell_english,
    spell_french,
    spell_phrase,
)


def texts(words):
    return [word.text for word in words]


def linked(links):
    return {(french.text, english.text) for french, english in links}


def test_without_links_each_word_belongs_to_each():
    phrase = aligned("attend", "waits for")
    assert linked(phrase.sure) == {("attend", "waits"), ("attend", "for")}
    assert not phrase.possible


def test_links_are_sure_or_possible():
    phrase = aligned("la semaine prochaine", "next week", "0?1 1-1 2-0")
    assert linked(phrase.sure) == {("semaine", "week"), ("prochaine", "next")}
    assert linked(phrase.possible) == {("la", "week")}


def test_no_links_at_all():
    phrase = aligned(",", ",", "")
    assert (texts(phrase.french), phrase.sure, phrase.possible) == ([","], (), ())


def test_links_survive_another_order():
    noun, adjective = aligned("ville", "city"), aligned("magnifique", "magnificent")
    phrase = arrange((noun, adjective), (adjective, noun))
    assert texts(phrase.french) == ["ville", "magnifique"]
    assert texts(phrase.english) == ["magnificent", "city"]
    assert linked(phrase.sure) == {("ville", "city"), ("magnifique", "magnificent")}


def test_words_spelled_alike_stay_apart():
    first, second = aligned("le", "the"), aligned("le", "the")
    phrase = join(first, second)
    assert len(set(phrase.french)) == 2
    assert len(phrase.sure) == 2


def test_a_part_may_be_in_one_language_only():
    verb, do = aligned("visite", "visit"), aligned("", "does")
    phrase = arrange((verb,), (do, verb), possible=((verb, do),))
    assert texts(phrase.french) == ["visite"]
    assert texts(phrase.english) == ["does", "visit"]
    assert linked(phrase.possible) == {("visite", "does")}


def test_nothing_adds_nothing():
    phrase = aligned("Paris", "Paris")
    assert join(EMPTY, phrase, aligned("", "")) == phrase


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("la Afrique", "L'Afrique"),
        ("le hôtel", "L'hôtel"),
        ("la ville", "La ville"),
        ("je ne aime", "Je n'aime"),
        ("il me attend", "Il m'attend"),
        ("parce que elle", "Parce qu'elle"),
        ("si il", "S'il"),
        ("si elle", "Si elle"),
        ("à le Japon", "Au Japon"),
        ("à les États-Unis", "Aux États-Unis"),
        ("à la plage", "À la plage"),
        ("à le hôtel", "À l'hôtel"),
        ("de le lac", "Du lac"),
        ("de les Pays-Bas", "Des Pays-Bas"),
        ("de Athènes", "D'Athènes"),
        ("ma amie", "Mon amie"),
        ("ma sœur", "Ma sœur"),
        ("ce homme", "Cet homme"),
        ("visites -tu Paris ?", "Visites-tu Paris?"),
        ("que est-ce que je vois", "Qu'est-ce que je vois"),
        ("que je ne ai", "Que je n'ai"),
        ("ne la attend", "Ne l'attend"),
    ],
)
def test_french_elides_and_contracts(words, written):
    phrase = aligned(words, "")
    spelled = spell_french(phrase.french)
    assert spelled.text == written
    assert set(spelled.place.values()) == set(range(len(written.split())))


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("a city", "A city"),
        ("a island", "An island"),
        ("I can not go .", "I cannot go."),
        ("does not go", "Does not go"),
        ("yesterday , he left", "Yesterday, he left"),
    ],
)
def test_english_joins(words, written):
    phrase = aligned("", words)
    spelled = spell_english(phrase.english)
    assert spelled.text == written
    assert set(spelled.place.values()) == set(range(len(written.split())))


def test_links_join_written_words():
    article, name = aligned("la", ""), aligned("Afrique", "Africa")
    country = arrange((article, name), (name,), possible=((article, name),))
    phrase = join(
        aligned("elle", "she"), aligned("visite", "visits"), country, aligned(".", ".", "")
    )
    pair, gold = spell_phrase(phrase)
    assert pair == ("Elle visite l'Afrique.", "She visits Africa.")
    assert gold.sure == gold.possible == {(0, 0), (1, 1), (2, 2)}


def test_a_contraction_has_the_links_of_both_its_words():
    phrase = join(aligned("à", "in"), aligned("les", "the"), aligned("Pays-Bas", "Netherlands"))
    pair, gold = spell_phrase(phrase)
    assert pair.source == "Aux Pays-Bas"
    assert gold.sure == {(0, 0), (0, 1), (1, 2)}


def test_possible_links_hold_the_sure_ones():
    _, gold = spell_phrase(aligned("le lundi", "on Mondays", "0?0 1-1"))
    assert gold.sure == {(1, 1)}
    assert gold.possible == {(0, 0), (1, 1)}
