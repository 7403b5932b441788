import pytest

from regard.corpora.generated.travel.clauses import (
    NEVER,
    NO_LONGER,
    NOT,
    THE,
    THIS,
    A,
    Clitic,
    Subject,
    VerbModifier,
    agreement_suffix,
    clause,
    compare,
    noun_phrase,
    place_name,
    place_phrase,
    possessive,
    pronoun_for,
)
from regard.corpora.generated.travel.lexicon import (
    BE,
    CAN,
    GOING,
    KIN,
    LONG_ADJECTIVES,
    SIGHTS,
    SMALL_ADJECTIVES,
    VERBS,
    WANT,
    WOULD_LIKE,
    Place,
)
from regard.corpora.generated.travel.phrases import EMPTY, aligned, spell_phrase

VERB = {verb.infinitive: verb for verb in VERBS}
NOUN = {noun.french[0]: noun for noun in SIGHTS + KIN}
ADJECTIVE = {word.french[0]: word for word in SMALL_ADJECTIVES + LONG_ADJECTIVES}
OFTEN = VerbModifier("souvent", "often")
ROME = "Rome"


def subject(french, english, person, gender):
    return Subject(aligned(french, english), person, gender)


def jane():
    return subject("Jane", "Jane", 2, "f")


def you():
    return subject("-tu", "you", 1, "m")


def rome():
    return aligned("Rome", "Rome")


def her():
    return Clitic("la", "her", "e")


@pytest.mark.parametrize(
    ("phrase", "french", "english", "links"),
    [
        (
            lambda: clause(jane(), VERB["visiter"], "present", rest=rome()),
            "Jane visite Rome",
            "Jane visits Rome",
            "0-0 1-1 2-2",
        ),
        (
            lambda: clause(jane(), VERB["visiter"], "present", rest=rome(), modifier=NOT),
            "Jane ne visite pas Rome",
            "Jane does not visit Rome",
            "0-0 1?1 1?2 2?1 2-3 3-2 4-4",
        ),
        (
            lambda: clause(jane(), VERB["aimer"], "present", rest=rome(), modifier=NEVER),
            "Jane n'aime jamais Rome",
            "Jane never loves Rome",
            "0-0 1?1 1-2 2-1 3-3",
        ),
        (
            lambda: clause(jane(), VERB["visiter"], "present", rest=rome(), modifier=OFTEN),
            "Jane visite souvent Rome",
            "Jane often visits Rome",
            "0-0 1-2 2-1 3-3",
        ),
        (
            lambda: clause(jane(), VERB["visiter"], "past", rest=rome()),
            "Jane a visité Rome",
            "Jane visited Rome",
            "0-0 1?1 2-1 3-2",
        ),
        (
            lambda: clause(jane(), VERB["arriver"], "past"),
            "Jane est arrivée",
            "Jane arrived",
            "0-0 1?1 2-1",
        ),
        (
            lambda: clause(jane(), VERB["attendre"], "past", clitic=her()),
            "Jane l'a attendue",
            "Jane waited for her",
            "0-0 1?1 1?2 1-3 2-1 2-2",
        ),
        (
            lambda: clause(jane(), VERB["visiter"], GOING, rest=rome()),
            "Jane va visiter Rome",
            "Jane is going to visit Rome",
            "0-0 1?1 1-2 1?3 2?3 2-4 3-5",
        ),
        (
            lambda: clause(jane(), VERB["rencontrer"], WANT, clitic=her(), modifier=NOT),
            "Jane ne veut pas la rencontrer",
            "Jane does not want to meet her",
            "0-0 1?1 1?2 2?1 2-3 2?4 3-2 4-6 5?4 5-5",
        ),
        (
            lambda: clause(jane(), VERB["visiter"], CAN, rest=rome(), modifier=NOT),
            "Jane ne peut pas visiter Rome",
            "Jane cannot visit Rome",
            "0-0 1?1 2-1 3-1 4-2 5-3",
        ),
        (
            lambda: clause(jane(), None, BE, rest=aligned("contente", "happy"), modifier=NO_LONGER),
            "Jane n'est plus contente",
            "Jane is no longer happy",
            "0-0 1-1 1?2 1?3 2-2 2-3 3-4",
        ),
        (
            lambda: clause(jane(), VERB["visiter"], "present", rest=rome(), order="asking"),
            "Est-ce que Jane visite Rome",
            "Does Jane visit Rome",
            "0?0 1?0 2-1 3?0 3-2 4-3",
        ),
        (
            lambda: clause(you(), VERB["visiter"], WOULD_LIKE, rest=rome(), order="inverted"),
            "Voudrais-tu visiter Rome",
            "Would you like to visit Rome",
            "0?0 0-1 0-2 0?3 1?3 1-4 2-5",
        ),
        (
            lambda: clause(
                jane(), VERB["aller"], "past", order="asking", opening=aligned("quand", "when")
            ),
            "Quand est-ce que Jane est allée",
            "When did Jane go",
            "0-0 1?1 2?1 3-2 4?1 4?3 5-3",
        ),
        (
            lambda: clause(
                Subject(EMPTY, 4, "m"),
                VERB["attendre"],
                "present",
                clitic=Clitic("me", "me"),
                order="commanding",
            ),
            "Attendez-moi",
            "Wait for me",
            "0-0 0-1 0-2",
        ),
        (
            lambda: clause(
                Subject(EMPTY, 4, "m"),
                VERB["attendre"],
                "present",
                clitic=Clitic("me", "me"),
                order="commanding",
                modifier=NOT,
            ),
            "Ne m'attendez pas",
            "Do not wait for me",
            "0?0 0?1 1?0 1-2 1-3 1-4 2-1",
        ),
        (
            lambda: clause(jane(), VERB["promener"], "past", clitic=Clitic("se", "")),
            "Jane s'est promenée",
            "Jane walked",
            "0-0 1?1 2-1",
        ),
    ],
)
def test_clause(phrase, french, english, links):
    pair, gold = spell_phrase(phrase())
    assert pair == (french, english)
    marks = {link: "-" if link in gold.sure else "?" for link in gold.possible}
    assert " ".join(f"{s}{marks[s, t]}{t}" for s, t in sorted(marks)) == links


@pytest.mark.parametrize(
    ("determiner", "noun", "plural", "adjectives", "french", "english"),
    [
        (A, "ville", False, ("", "moderne"), "Une ville moderne", "A modern city"),
        (A, "ville", False, ("grand", "moderne"), "Une grande ville moderne", "A big modern city"),
        (A, "ville", True, ("grand", ""), "De grandes villes", "Big cities"),
        (A, "ville", True, ("", "blanc"), "Des villes blanches", "White cities"),
        (A, "île", False, ("", ""), "Une île", "An island"),
        (THIS, "hôtel", False, ("beau", ""), "Ce bel hôtel", "This beautiful hotel"),
        (THIS, "hôtel", False, ("", "étrange"), "Cet hôtel étrange", "This strange hotel"),
        (THE, "hôtel", True, ("vieux", ""), "Les vieux hôtels", "The old hotels"),
        (possessive(jane()), "amie", False, ("", ""), "Son amie", "Her friend"),
        (
            possessive(subject("Paul", "Paul", 2, "m")),
            "sœur",
            False,
            ("", ""),
            "Sa sœur",
            "His sister",
        ),
        (
            possessive(subject("ils", "they", 5, "m")),
            "ami",
            True,
            ("", ""),
            "Leurs amis",
            "Their friends",
        ),
    ],
)
def test_noun_phrase(determiner, noun, plural, adjectives, french, english):
    small, long = (ADJECTIVE.get(word) for word in adjectives)
    phrase = noun_phrase(determiner, NOUN[noun], plural, small=small, long=long)
    assert spell_phrase(phrase).pair == (french, english)


def test_an_article_that_english_leaves_out_has_a_possible_link():
    _, gold = spell_phrase(noun_phrase(A, NOUN["ville"], True, long=ADJECTIVE["moderne"]))
    assert gold.sure == {(1, 1), (2, 0)}
    assert gold.possible - gold.sure == {(0, 1)}


@pytest.mark.parametrize(
    ("gender", "plural", "expected"),
    [("m", False, ""), ("f", False, "e"), ("m", True, "s"), ("f", True, "es"), (None, False, "")],
)
def test_ending(gender, plural, expected):
    assert agreement_suffix(gender, plural) == expected


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


def test_a_subject_mentioned_again_is_a_pronoun():
    assert spell_phrase(pronoun_for(Subject(aligned("Jane", "Jane"), 2, "f")).phrase).pair == (
        "Elle",
        "She",
    )


def test_a_pronoun_needs_a_gender():
    with pytest.raises(ValueError, match="no pronoun"):
        pronoun_for(Subject(aligned("qui", "who"), 2, None))
