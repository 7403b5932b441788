"""The spelling of adjacent words: elision, contraction, punctuation."""

from collections.abc import Sequence
from typing import NamedTuple

from regard.corpora.corpus import Pair
from regard.corpora.generated.generator import Example
from regard.corpora.generated.travel.phrases import Phrase, PhraseWord
from regard.types import GoldAlignment, Link

ELIDED = {"le", "la", "je", "me", "te", "se", "ne", "de", "que"}
BEFORE_VOWEL = {"ce": "cet", "ma": "mon", "ta": "ton", "sa": "son"}
CONTRACTED = {
    ("à", "le"): "au",
    ("à", "les"): "aux",
    ("de", "le"): "du",
    ("de", "les"): "des",
}
FRENCH_VOWELS = tuple("aeiouyhàâéèêîôûœ")
"""First letters that cause elision; the lexicon has no aspirated h."""
ENGLISH_VOWELS = tuple("aeiou")
ATTACHED = tuple(",.?-")
"""Words that begin with one of these are attached to the word before."""


class Spelled(NamedTuple):
    """One language of a phrase as text."""

    text: str
    place: dict[PhraseWord, int]
    """For each word the index of the written word, by `str.split`, that it is part of."""


def spell_phrase(phrase: Phrase) -> Example:
    """The phrase as a sentence, with links between written words such as "l'Afrique"."""
    french, english = spell_french(phrase.french), spell_english(phrase.english)

    def places(links: Sequence[tuple[PhraseWord, PhraseWord]]) -> frozenset[Link]:
        return frozenset((french.place[f], english.place[e]) for f, e in links)

    sure = places(phrase.sure)
    gold = GoldAlignment(sure, sure | places(phrase.possible))
    return Example(Pair(french.text, english.text), gold)


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
        if written and (written[-1], text) in CONTRACTED and not elided:
            written[-1] = CONTRACTED[written[-1], text]
        elif joined or text.startswith(ATTACHED):
            written[-1] += text[:-1] + "'" if elided else text
        elif elided:
            written.append(text[:-1] + "'")
        else:
            written.append(BEFORE_VOWEL.get(text, text) if vowel_ahead else text)
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
        elif word.text == "a" and after.startswith(ENGLISH_VOWELS):
            written.append("an")
        else:
            written.append(word.text)
        place[word] = len(written) - 1
    return Spelled(_capitalised(written), place)


def _capitalised(written: Sequence[str]) -> str:
    text = " ".join(written)
    return text[:1].upper() + text[1:]
