"""Bilingual phrases whose words stay aligned in any order, and their spelling as sentences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.corpora.corpus import AlignedPair, Pair
from regard.types import GoldAlignment, Link

ELIDED = {"le", "la", "je", "me", "te", "se", "ne", "de", "que"}
BEFORE_VOWEL = {"ce": "cet", "ma": "mon", "ta": "ton", "sa": "son"}
CONTRACTED = {("à", "le"): "au", ("à", "les"): "aux", ("de", "le"): "du", ("de", "les"): "des"}
FRENCH_VOWELS = tuple("aeiouyhàâéèêîôûœ")
"""First letters that cause elision; the lexicon has no aspirated h."""
ENGLISH_VOWELS = tuple("aeiou")
ATTACHED = tuple(",.?-")  # words that begin with one of these are attached to the word before


@dataclass(eq=False, slots=True)
class PhraseWord:
    """A word, compared by identity."""

    text: str


class Phrase(NamedTuple):
    """French words, English words, and their alignment."""

    french: tuple[PhraseWord, ...] = ()
    english: tuple[PhraseWord, ...] = ()
    sure: tuple[tuple[PhraseWord, PhraseWord], ...] = ()
    possible: tuple[tuple[PhraseWord, PhraseWord], ...] = ()  # annotators might disagree on


EMPTY = Phrase()


def aligned(french: str, english: str, links: str | None = None) -> Phrase:
    """The phrase of these words, with links such as "0-1 2?1".

    Word indices, French first; `-` is a sure link, `?` a possible one. The default links all words.
    """
    if not french and not english:
        return EMPTY
    here, there = (tuple(map(PhraseWord, side.split())) for side in (french, english))
    if links is None:
        return Phrase(here, there, tuple((f, e) for f in here for e in there))
    both: dict[str, list[tuple[PhraseWord, PhraseWord]]] = {"-": [], "?": []}
    for link in links.split():
        mark = "-" if "-" in link else "?"
        f, e = map(int, link.split(mark))
        both[mark].append((here[f], there[e]))
    return Phrase(here, there, tuple(both["-"]), tuple(both["?"]))


def join(*parts: Phrase) -> Phrase:
    """The parts in one phrase, in the same order in both languages."""
    return arrange(parts, parts)


def arrange(
    french: Sequence[Phrase],
    english: Sequence[Phrase],
    *,
    possible: Iterable[tuple[Phrase, Phrase]] = (),
) -> Phrase:
    """The parts in one phrase, each language in its own order.

    A part of one language only may be left out of the other's order. `possible` adds possible
    links between the French words of its first parts and the English words of its second parts.
    """
    parts = {id(part): part for part in (*french, *english)}.values()
    added = ((f, e) for here, there in possible for f in here.french for e in there.english)
    return Phrase(
        tuple(word for part in french for word in part.french),
        tuple(word for part in english for word in part.english),
        tuple(link for part in parts for link in part.sure),
        (*(link for part in parts for link in part.possible), *added),
    )


class Spelled(NamedTuple):
    """One language of a phrase as text."""

    text: str
    place: dict[PhraseWord, int]  # index of the written word, by `str.split`, that holds it


def spell_phrase(phrase: Phrase) -> AlignedPair:
    """The phrase as a sentence, with links between written words such as "l'Afrique"."""
    french, english = spell_french(phrase.french), spell_english(phrase.english)

    def places(links: Sequence[tuple[PhraseWord, PhraseWord]]) -> frozenset[Link]:
        return frozenset((french.place[f], english.place[e]) for f, e in links)

    sure = places(phrase.sure)
    gold = GoldAlignment(sure, sure | places(phrase.possible))
    return AlignedPair(Pair(french.text, english.text), gold)


def spell_french(words: Sequence[PhraseWord]) -> Spelled:
    """The words with "de le" written as "du", "la Afrique" as "l'Afrique", and the like."""
    written: list[str] = []
    place: dict[PhraseWord, int] = {}
    joined = False  # whether the next word is attached
    following = [word.text for word in words[1:]] + [""]
    for word, after in zip(words, following, strict=True):
        text = word.text
        vowel_ahead = after.lower().startswith(FRENCH_VOWELS)
        elided = (text in ELIDED and vowel_ahead) or (text == "si" and after in ("il", "ils"))
        form = f"{text[:-1]}'" if elided else text
        if written and (written[-1], text) in CONTRACTED and not elided:
            written[-1] = CONTRACTED[written[-1], text]
        elif joined or text.startswith(ATTACHED):
            written[-1] += form
        else:
            written.append(BEFORE_VOWEL.get(form, form) if vowel_ahead else form)
        place[word] = len(written) - 1
        joined = elided
    return Spelled(_capitalised(written), place)


def spell_english(words: Sequence[PhraseWord]) -> Spelled:
    """The words with "can not" written as "cannot", "a island" as "an island"."""
    written: list[str] = []
    place: dict[PhraseWord, int] = {}
    following = [word.text for word in words[1:]] + [""]
    for word, after in zip(words, following, strict=True):
        if word.text.startswith(ATTACHED) or (word.text == "not" and written[-1:] == ["can"]):
            written[-1] += word.text
        else:
            vowel_ahead = word.text == "a" and after.startswith(ENGLISH_VOWELS)
            written.append("an" if vowel_ahead else word.text)
        place[word] = len(written) - 1
    return Spelled(_capitalised(written), place)


def _capitalised(written: Sequence[str]) -> str:
    text = " ".join(written)
    return text[:1].upper() + text[1:]
