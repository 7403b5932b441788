"""The syntax of French and English clauses: verbs, negations, pronouns, adjectives."""

from typing import Literal, NamedTuple

from regard.corpora.generated.travel import lexicon
from regard.corpora.generated.travel.phrases import (
    EMPTY,
    FRENCH_VOWELS,
    Phrase,
    aligned,
    arrange,
    join,
)

Tense = Literal["present", "past"] | lexicon.Auxiliary
"""An auxiliary counts as a tense: "va visiter", "veut visiter"."""
ClauseType = Literal["telling", "asking", "inverted", "commanding"]
"""The kind of a clause; "inverted" asks "visites-tu", not "est-ce que tu visites"."""


class Subject(NamedTuple):
    phrase: Phrase
    person: int  # index into the six forms of a verb; the plural from 3 on
    gender: lexicon.Gender | None  # None for "qui", whose possessive English cannot decide


class Determiner(NamedTuple):
    french: tuple[str, str, str]  # masculine, feminine, plural
    english: tuple[str, str]  # singular, plural


class VerbModifier(NamedTuple):
    """What follows the finite French verb: "pas", "jamais", "souvent"."""

    french: str
    english: str
    negative: bool = False


class Clitic(NamedTuple):
    """An unstressed object pronoun, which precedes the French verb."""

    french: str
    english: str
    agreement: str = ""  # the suffix of a participle after it


class VerbParts(NamedTuple):
    """A verb, split as the two languages need it."""

    english_aux: Phrase  # before the subject in a question, before "not" elsewhere
    finite: Phrase  # the finite French verb
    head: Phrase  # its translation after the negation: `finite` itself, or EMPTY
    main: Phrase  # participle or infinitive
    possible: tuple[tuple[Phrase, Phrase], ...]  # links


THE = Determiner(("le", "la", "les"), ("the", "the"))
A = Determiner(("un", "une", "des"), ("a", ""))
THIS = Determiner(("ce", "cette", "ces"), ("this", "these"))
NO_MODIFIER = VerbModifier("", "")
NOT = VerbModifier("pas", "not", negative=True)
NEVER = VerbModifier("jamais", "never", negative=True)
NO_LONGER = VerbModifier("plus", "no longer", negative=True)
ADVERBS = tuple(
    VerbModifier(french, english)
    for french, english in (("souvent", "often"), ("toujours", "always"), ("rarement", "rarely"))
)


def possessive(subject: Subject) -> Determiner:
    """The possessive determiner of a subject: English agrees with it, French with the noun."""
    forms, english = lexicon.POSSESSIVES[subject.person]
    masculine, feminine, plural = forms.split()
    if subject.person == 2 and subject.gender == "f":
        english = "her"
    return Determiner((masculine, feminine, plural), (english, english))


def agreement_suffix(gender: lexicon.Gender | None, plural: bool) -> str:
    """The suffix of a participle that agrees."""
    return ("e" if gender == "f" else "") + ("s" if plural else "")


def inflect(adjective: lexicon.Adjective, gender: lexicon.Gender | None, plural: bool) -> Phrase:
    """The form of the adjective that agrees with a noun."""
    return aligned(adjective.french[(gender == "f") + 2 * plural], adjective.english)


def noun_phrase(
    determiner: Determiner,
    noun: lexicon.Noun,
    plural: bool,
    *,
    small: lexicon.Adjective | None = None,
    long: lexicon.Adjective | None = None,
) -> Phrase:
    """Determiner, noun, a small adjective before the French noun and a long one after it."""
    which = 2 if plural else int(noun.gender == "f")
    article = determiner.french[which]
    if article == "des" and small:
        article = "de"  # "de grandes villes"
    first = aligned(article, determiner.english[plural])
    name = aligned(noun.french[plural], noun.english[plural])
    before = inflect(small, noun.gender, plural) if small else EMPTY
    behind = inflect(long, noun.gender, plural) if long else EMPTY
    if small and which == 0 and noun.french[0].startswith(FRENCH_VOWELS):
        before = aligned(small.before_vowel, small.english)  # "un bel hôtel"
    unlinked = () if first.english else ((first, name),)
    return arrange((first, before, name, behind), (first, before, behind, name), possible=unlinked)


def noun_subject(determiner: Determiner, noun: lexicon.Noun, plural: bool) -> Subject:
    return Subject(noun_phrase(determiner, noun, plural), 5 if plural else 2, noun.gender)


def clause(
    subject: Subject,
    verb: lexicon.Verb | None,
    tense: Tense,
    rest: Phrase = EMPTY,
    modifier: VerbModifier = NO_MODIFIER,
    clitic: Clitic | None = None,
    order: ClauseType = "telling",
    opening: Phrase = EMPTY,
) -> Phrase:
    """A clause; `verb` is None if an adjective follows the auxiliary, `opening` a question word."""
    asked = order in ("asking", "inverted")
    english_aux, finite, head, main, possible = verb_parts(
        subject, verb, tense, clitic, support=asked or modifier == NOT
    )
    ne = aligned("ne" if modifier.negative else "", "")
    between = aligned(modifier.french, modifier.english)
    inverted = order == "inverted"
    before, flipped = (EMPTY, subject.phrase) if inverted else (subject.phrase, EMPTY)
    ask = aligned("est-ce que" if order == "asking" else "", "")
    pronoun = aligned(clitic.french, clitic.english) if clitic else EMPTY
    if order == "commanding" and clitic and not modifier.negative:
        pronoun = aligned("-moi" if clitic.french == "me" else "-" + clitic.french, clitic.english)
        verbs: tuple[Phrase, ...] = (finite, pronoun)
    elif isinstance(tense, lexicon.Auxiliary):
        verbs = (ne, finite, flipped, between, pronoun, main)
    else:
        verbs = (ne, pronoun, finite, flipped, between, main)
    lead = (opening, english_aux, subject.phrase) if asked else (subject.phrase, english_aux)
    untranslated = () if pronoun.english else ((pronoun, main if main.english else head),)
    return arrange(
        (opening, ask, before, *verbs, rest),
        (*lead, between, head, main, pronoun, rest),
        possible=((ne, between), (ne, english_aux), (ask, english_aux), *untranslated, *possible),
    )


def verb_parts(
    subject: Subject, verb: lexicon.Verb | None, tense: Tense, clitic: Clitic | None, support: bool
) -> VerbParts:
    """The words of the verb; `support` requires an English auxiliary, if need be "do"."""
    person = subject.person
    third = person == 2
    do = ("does" if third else "do") if support else ""
    if isinstance(tense, lexicon.Auxiliary):
        return _auxiliary_parts(person, verb, tense, do)
    assert verb is not None
    bare, present, past = (f"{form} {verb.particle}" for form in verb.english)
    if tense == "present":
        finite = aligned(verb.present[person], present if third and not support else bare)
        english_aux = aligned("", do)
        return VerbParts(english_aux, finite, finite, EMPTY, ((finite, english_aux),))
    agreement = agreement_suffix(subject.gender, person > 2) if verb.with_etre else ""
    if clitic and clitic.agreement:
        agreement = clitic.agreement
    finite = aligned((lexicon.ETRE if verb.with_etre else lexicon.AVOIR)[person], "")
    main = aligned(verb.participle + agreement, bare if support else past)
    english_aux = aligned("", "did" if support else "")
    return VerbParts(english_aux, finite, EMPTY, main, ((finite, english_aux), (finite, main)))


def _auxiliary_parts(
    person: int, verb: lexicon.Verb | None, tense: lexicon.Auxiliary, do: str
) -> VerbParts:
    """The words of "va visiter" or "peut visiter", or of "est" alone."""
    main = aligned(verb.infinitive, f"{verb.english[0]} {verb.particle}") if verb else EMPTY
    plain, third = tense.head
    if not plain:
        finite = aligned(tense.french[person], tense.english_aux[person])
        return VerbParts(finite, finite, EMPTY, main, ())
    english_aux = aligned("", tense.english_aux[person] or do)
    finite = aligned(tense.french[person], third if person == 2 and not do else plain)
    to = aligned("", "to")
    main = arrange((main,), (to, main), possible=((main, to), (finite, to)))
    return VerbParts(english_aux, finite, finite, main, ((finite, english_aux),))


def pronoun_for(subject: Subject) -> Subject:
    """The pronoun for a subject that was mentioned before."""
    for french, english, person, gender in lexicon.PRONOUNS:
        if (person, gender) == (subject.person, subject.gender):
            return Subject(aligned(french, english), person, gender)
    raise ValueError(f"no pronoun for {subject}")


def place_name(place: lexicon.Place) -> Phrase:
    """A city or a country as French and English name it, "la France" and "France"."""
    english = place.english.removeprefix("the ")
    article = aligned(place.article, "the" if place.english != english else "")
    name = aligned(place.french, english)
    return arrange((article, name), (article, name), possible=((article, name),))


def place_phrase(preposition: str, place: lexicon.Place) -> Phrase:
    """In, to or from a city or a country: "à Rome", "en France", "au Japon", "du Japon"."""
    feminine = place.article == "la"
    french = "de" if preposition == "from" else "en" if feminine else "à"
    place = place._replace(article="") if feminine else place
    return join(aligned(french, preposition), place_name(place))


def compare(adjective: lexicon.Adjective, subject: Subject, than: Phrase) -> Phrase:
    """Bigger, or more famous, than something."""
    quality = inflect(adjective, subject.gender, subject.person > 2)
    if adjective.comparative.startswith("more "):
        degree = join(aligned("plus", "more"), quality)
    else:
        degree = aligned(f"plus {quality.french[0].text}", adjective.comparative)
    return join(degree, aligned("que", "than"), than)
