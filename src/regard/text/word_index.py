"""Which word each piece belongs to."""

import codecs
from collections.abc import Sequence

from regard.text.word_units import unit_spans


def word_ids(spellings: Sequence[bytes]) -> list[int | None]:
    """For each spelling, the number of the first word it is part of; None if it is part of none.

    Words are those of `split_units` on the text that all spellings give together, where bytes that
    are no UTF-8 read as U+FFFD. A spelling may be a part of a character.
    """
    text, spans = _decode(spellings)
    numbers = _character_words(text)
    return [
        next((number for number in numbers[first:last] if number is not None), None)
        for first, last in spans
    ]


def _decode(spellings: Sequence[bytes]) -> tuple[str, list[tuple[int, int]]]:
    """The text, and the characters [first, last) of it that each spelling had a part in."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text, spans = "", []
    for spelling in spellings:
        if spelling and not 0x80 <= spelling[0] < 0xC0:
            text += decoder.decode(b"", final=True)  # an unfinished character stays so
        first = len(text)
        text += decoder.decode(spelling)
        unfinished = bool(decoder.getstate()[0])
        spans.append((first, len(text) + unfinished if spelling else first))
    return text + decoder.decode(b"", final=True), spans


def _character_words(text: str) -> list[int | None]:
    """For each character the number of its word, None for a space."""
    numbers: list[int | None] = [None] * len(text)
    for number, (first, last) in enumerate(unit_spans(text)):
        numbers[first:last] = [number] * (last - first)
    return numbers
