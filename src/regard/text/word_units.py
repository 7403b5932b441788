"""Text -> words, whether its script has spaces or not, and words -> text.

Spaces separate words. In scripts without spaces each letter, with the signs that combine with it,
is a unit; so is a word or number of another script between them, and a row of punctuation marks:
`Debianの起動。` is `Debian の 起 動 。`
"""

import codecs
import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import cache
from typing import NamedTuple

UNSPACED_SCRIPTS = frozenset(
    ["Hani", "Hans", "Hant", "Jpan", "Khmr", "Laoo", "Mymr", "Thai", "Tibt"]
)
"""ISO 15924 codes of scripts without spaces between words; Korean has spaces."""


def _of_category(kinds: str, *blocks: range) -> str:
    """The characters of some blocks whose Unicode category begins with one of `kinds`."""
    letters = (chr(number) for block in blocks for number in block)
    return "".join(letter for letter in letters if unicodedata.category(letter)[0] in kinds)


COMBINING = _of_category("M", range(0x300, 0xFFFF))  # vowel signs and accents that are characters
JOINERS = "\u200c\u200d"  # of Persian and Hindi, within words
# Letters or marks in Unicode that belong to the letter before them: AM of Thai and Lao, the voiced
# sounds of half-width katakana and, last, variant selectors of Chinese characters.
_ATTACHED = f"{COMBINING}{JOINERS}\u0e33\u0eb3\uff9e\uff9f\U000e0100-\U000e01ef"
_EAST_ASIAN = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa"
    "\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9d\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
"""Chinese characters, kana and bopomofo."""
_SOUTH_EAST_ASIAN = _of_category(
    "L",
    range(0xE00, 0xE33),  # Thai
    range(0xE34, 0xEB3),  # and Lao
    range(0xEB4, 0x10A0),  # Lao, Tibetan, Burmese
    range(0x1780, 0x1800),  # Khmer
    range(0x1950, 0x19E0),  # Tai Le, New Tai Lue
    range(0x1A20, 0x1AB0),  # Tai Tham
    range(0x1B00, 0x1B80),  # Balinese
    range(0xA980, 0xAA00),  # Javanese, Burmese
    range(0xAA60, 0xAAE0),  # Burmese, Tai Viet
)
UNSPACED_LETTERS = f"{_EAST_ASIAN}{_SOUTH_EAST_ASIAN}"
"""Letters of scripts without spaces between words, as a character set of a regular expression."""
_LETTER = f"[{UNSPACED_LETTERS}]"
_UNSPACED = re.compile(_LETTER)
_CHUNK = re.compile(r"\S+")
_COMPARED = re.compile(rf"\d+|{_LETTER}|[^\W\d_{UNSPACED_LETTERS}]+")
CLOSING_MARKS = frozenset(".,;:!?%)]}…")  # no space before them; quotation marks may be either
OPENING_MARKS = frozenset("([{¿¡")  # no space after them
FULL_WIDTH_MARKS = frozenset("。、，．：；！？（）［］｛｝「」『』【】《》〈〉・")
"""Marks without a space on either side."""


@cache
def _unit() -> re.Pattern[str]:
    """A unit; compiled when first needed, which takes long compared to a short translation."""
    # After a stacking sign of Burmese or Khmer, the next letter is written below.
    return re.compile(
        rf"{_LETTER}(?:[{_ATTACHED}]|(?<=[\u1039\u17d2]){_LETTER})*"
        rf"|(?:(?!{_LETTER})[\w{_ATTACHED}])+"
        rf"|(?:(?!{_LETTER})[^\w\s{_ATTACHED}])+"
    )


def has_unspaced(text: str) -> bool:
    """Whether a text has letters of a script without spaces between words."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def split_units(text: str) -> list[str]:
    """The words of a text; in scripts without spaces its letters."""
    if not has_unspaced(text):
        return text.split()
    return [text[first:last] for first, last in unit_spans(text)]


def count_units(text: str) -> int:
    """How many words a text has; in scripts without spaces how many letters."""
    return len(split_units(text))


def compared_words(text: str) -> list[str]:
    """Words and numbers, case-folded; single characters in scripts without spaces."""
    return _COMPARED.findall(text.casefold())


def unit_spans(text: str) -> list[tuple[int, int]]:
    """The place of each unit in a text: its first character, and the one after its last."""
    spans: list[tuple[int, int]] = []
    for found in _CHUNK.finditer(text):
        if has_unspaced(found[0]):
            spans += (unit.span() for unit in _unit().finditer(text, *found.span()))
        else:
            spans.append(found.span())
    return spans


class MergedWords(NamedTuple):
    """The units of a text, some of them merged."""

    words: tuple[str, ...]
    sizes: tuple[int, ...]  # units in each word
    word_of: tuple[int, ...]  # for each unit the number of its word


def merge_units(text: str, begins: Collection[int | None]) -> MergedWords:
    """The words of a text; one begins at each unit of the indices `begins` and after a space."""
    spans, words, sizes, word_of = unit_spans(text), list[str](), list[int](), list[int]()
    for number, (first, last) in enumerate(spans):
        if number in begins or not number or spans[number - 1][1] != first:
            words.append("")
            sizes.append(0)
        words[-1] += text[first:last]
        sizes[-1] += 1
        word_of.append(len(words) - 1)
    return MergedWords(tuple(words), tuple(sizes), tuple(word_of))


def byte_word_ids(spellings: Sequence[bytes]) -> list[int | None]:
    """For each spelling, which may be a part of a character, the index of the first word of their
    text (as `split_units` has it) that it is part of; None if there is none.
    """
    text, spans = _decode_spans(spellings)
    word_at: list[int | None] = [None] * len(text)
    for number, (first, last) in enumerate(unit_spans(text)):
        word_at[first:last] = [number] * (last - first)
    return [
        next((number for number in word_at[first:last] if number is not None), None)
        for first, last in spans
    ]


def _decode_spans(spellings: Sequence[bytes]) -> tuple[str, list[tuple[int, int]]]:
    """The text, and the characters [first, last) of it that each spelling is part of."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text, spans = "", []
    for spelling in spellings:
        if spelling and not 0x80 <= spelling[0] < 0xC0:
            text += decoder.decode(b"", final=True)  # the character before stays incomplete
        first = len(text)
        text += decoder.decode(spelling)
        incomplete = bool(decoder.getstate()[0])
        spans.append((first, len(text) + incomplete if spelling else first))
    return text + decoder.decode(b"", final=True), spans


class Detokenized(NamedTuple):
    """A sentence, and for each of its characters the word that it belongs to; None: a space."""

    text: str
    word_at: tuple[int | None, ...]


def detokenize(words: Sequence[str]) -> Detokenized:
    """The sentence that `words` probably come from: punctuation marks are attached to their words,
    as are words that begin with an apostrophe: `it 's ( here ) .` becomes `it's (here).`
    """
    text = ""
    word_at: list[int | None] = []
    for number, word in enumerate(words):
        last = words[number - 1]
        close = word in CLOSING_MARKS or word.startswith(("'", "’")) or last in OPENING_MARKS
        close = close or word in FULL_WIDTH_MARKS or last in FULL_WIDTH_MARKS
        close = close or (has_unspaced(word[0]) and has_unspaced(last[-1]))
        if number and not close:
            text += " "
            word_at.append(None)
        text += word
        word_at += [number] * len(word)
    return Detokenized(text, tuple(word_at))
