"""Where French and English put their verbs, negations, pronouns and adjectives."""

from typing import Literal, NamedTuple

from regard.corpora.generated.travel.lexicon import (
    AVOIR,
    ETRE,
    POSSESSIVES,
    REFLEXIVES,
    Adjective,
    Auxiliary,
    Gender,
    Noun,
    Verb,
)
from regard.corpora.generated.travel.phrases import EMPTY, Phrase, aligned, arrange
from regard.corpora.generated.travel.spelling import FRENCH_VOWELS

Tense = Literal["present", "past"] | Auxiliary
"""An auxiliary counts as a tense: "va visiter", "veut visiter"."""
ClauseType = Literal["telling", "asking", "inverted", "commanding"]
"""What a clause does; "inverted" asks with "visites-tu" rather than "est-ce que tu visites"."""


class Subject(NamedTuple):
    phrase: Phrase
    person: int
    """A place in the six forms of a verb; from 3 on they are many."""
    gender: Gender | None
    """None for "qui": French says "son" of what is theirs, and English would have to choose."""


class Determiner(NamedTuple):
    french: tuple[str, str, str]  # masculine, feminine, plural
    english: tuple[str, str]  # singular, plural


class VerbModifier(NamedTuple):
    """What stands behind the French verb that agrees: "pas", "jamais", "souvent"."""

    french: str
    english: str
    negative: bool = False


class Clitic(NamedTuple):
    """An unstressed pronoun, which French puts before the verb."""

    french: str
    english: str
    agreement: str = ""
    """What a participle behind it ends in."""


class VerbParts(NamedTuple):
    """A verb as the two languages take it apart."""

    english_aux: Phrase
    """The English auxiliary: before the subject in a question, before "not" elsewhere."""
    finite: Phrase
    """The French word that agrees with the subject."""
    head: Phrase
    """What English says for it behind the negation: `finite` itself, or NOTHING."""
    main: Phrase
    """Participle or infinitive."""
    possible: tuple[tuple[Phrase, Phrase], ...]


THE = Determiner(("le", "la", "les"), ("the", "the"))
A = Determiner(("un", "une", "des"), ("a", ""))
THIS = Determiner(("ce", "cette", "ces"), ("this", "these"))
NO_MODIFIER = VerbModifier("", "")
NOT = VerbModifier("pas", "not", negative=True)
NEVER = VerbModifier("jamais", "never", negative=True)
NO_LONGER = VerbModifier("plus", "no longer", negative=True)
ADVERBS = (
    VerbModifier("souvent", "often"),
    VerbModifier("toujours", "always"),
    VerbModifier("rarement", "rarely"),
)


def possessive(subject: Subject) -> Determiner:
    """The possessive of what belongs to the subject."""
    *french, english = POSSESSIVES[subject.person]
    if subject.person == 2 and subject.gender == "f":
        english = "her"
    one, feminine, many = french
    return Determiner((one, feminine, many), (english, english))


def agreement_suffix(gender: Gender | None, plural: bool) -> str:
    """What a participle adds to agree."""
    return ("e" if gender == "f" else "") + ("s" if plural else "")


def reflexive(person: int) -> Clitic:
    """The pronoun of "se promener", which English does not say."""
    return Clitic(REFLEXIVES[person], "")


def inflect(adjective: Adjective, gender: Gender | None, plural: bool) -> Phrase:
    """The adjective as it agrees with a noun."""
    return aligned(adjective.french[(gender == "f") + 2 * plural], adjective.english)


def noun_phrase(
    determiner: Determiner,
    noun: Noun,
    plural: bool,
    *,
    small: Adjective | None = None,
    long: Adjective | None = None,
) -> Phrase:
    """Determiner, noun and adjectives: a small one before the French noun, a long one behind."""
    which = 2 if plural else int(noun.gender == "f")
    article = determiner.french[which]
    if article == "des" and small:
        article = "de"  # "de grandes villes"
    first = aligned(article, determiner.english[plural])
    name = aligned(noun.french[plural], noun.english[plural])
    before, behind = EMPTY, EMPTY
    if small:
        before = inflect(small, noun.gender, plural)
        if which == 0 and noun.french[0].startswith(FRENCH_VOWELS):
            before = aligned(small.before_vowel, small.english)  # "un bel hôtel"
    if long:
        behind = inflect(long, noun.gender, plural)
    return arrange(
        (first, before, name, behind),
        (first, before, behind, name),
        possible=() if first.english else ((first, name),),
    )


def clause(
    subject: Subject,
    verb: Verb | None,
    tense: Tense,
    *,
    rest: Phrase = EMPTY,
    modifier: VerbModifier = NO_MODIFIER,
    clitic: Clitic | None = None,
    order: ClauseType = "telling",
    opening: Phrase = EMPTY,
) -> Phrase:
    """Subject, verb and what follows; `verb` is None where an adjective follows the auxiliary.

    `opening` is the word a question begins with.
    """
    asked = order in ("asking", "inverted")
    parts = verb_parts(subject, verb, tense, clitic, support=asked or modifier.english == "not")
    english_aux, finite, head, main, possible = parts
    ne, between = (
        aligned("ne" if modifier.negative else "", ""),
        aligned(modifier.french, modifier.english),
    )
    before, flipped = subject.phrase, EMPTY
    if order == "inverted":
        before, flipped = flipped, before
    ask = aligned("est-ce que" if order == "asking" else "", "")

    pronoun = aligned(clitic.french, clitic.english) if clitic else EMPTY
    if order == "commanding" and clitic and not modifier.negative:
        pronoun = aligned("-moi" if clitic.french == "me" else "-" + clitic.french, clitic.english)
        verbs: tuple[Phrase, ...] = (finite, pronoun)
    elif isinstance(tense, Auxiliary):
        verbs = (ne, finite, flipped, between, pronoun, main)
    else:
        verbs = (ne, pronoun, finite, flipped, between, main)

    lead = (opening, english_aux, subject.phrase) if asked else (subject.phrase, english_aux)
    unsaid = () if pronoun.english else ((pronoun, main if main.english else head),)
    return arrange(
        (opening, ask, before, *verbs, rest),
        (*lead, between, head, main, pronoun, rest),
        possible=((ne, between), (ne, english_aux), (ask, english_aux), *unsaid, *possible),
    )


def verb_parts(
    subject: Subject, verb: Verb | None, tense: Tense, clitic: Clitic | None, *, support: bool
) -> VerbParts:
    """The words of the verb; `support` asks for an English auxiliary, if need be "do"."""
    person = subject.person
    third = person == 2
    if isinstance(tense, Auxiliary):
        return _behind_auxiliary(person, verb, tense, support=support)
    assert verb is not None
    bare, present, past = (f"{form} {verb.particle}" for form in verb.english)
    if tense == "present":
        finite = aligned(verb.present[person], present if third and not support else bare)
        english_aux = aligned("", ("does" if third else "do") if support else "")
        return VerbParts(english_aux, finite, finite, EMPTY, ((finite, english_aux),))
    agreement = agreement_suffix(subject.gender, person > 2) if verb.with_etre else ""
    if clitic and clitic.agreement:
        agreement = clitic.agreement
    finite = aligned((ETRE if verb.with_etre else AVOIR)[person], "")
    main = aligned(verb.participle + agreement, bare if support else past)
    english_aux = aligned("", "did" if support else "")
    return VerbParts(english_aux, finite, EMPTY, main, ((finite, english_aux), (finite, main)))


def _behind_auxiliary(
    person: int, verb: Verb | None, tense: Auxiliary, *, support: bool
) -> VerbParts:
    """The words of "va visiter" or "peut visiter", or of "est" alone."""
    main = aligned(verb.infinitive, f"{verb.english[0]} {verb.particle}") if verb else EMPTY
    plain, third = tense.head
    if not plain:
        finite = aligned(tense.french[person], tense.english_aux[person])
        return VerbParts(finite, finite, EMPTY, main, ())
    do = ("does" if person == 2 else "do") if support else ""
    english_aux = aligned("", tense.english_aux[person] or do)
    finite = aligned(tense.french[person], third if person == 2 and not support else plain)
    to = aligned("", "to")
    main = arrange((main,), (to, main), possible=((main, to), (finite, to)))
    return VerbParts(english_aux, finite, finite, main, ((finite, english_aux),))
