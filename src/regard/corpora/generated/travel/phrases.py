"""Bilingual phrases whose words stay aligned however the phrases are arranged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple


@dataclass(eq=False, slots=True)
class PhraseWord:
    """A word, compared by identity."""

    text: str


class Phrase(NamedTuple):
    """French words, English words, and their alignment."""

    french: tuple[PhraseWord, ...] = ()
    english: tuple[PhraseWord, ...] = ()
    sure: tuple[tuple[PhraseWord, PhraseWord], ...] = ()
    possible: tuple[tuple[PhraseWord, PhraseWord], ...] = ()
    """Links that annotators might disagree about."""


EMPTY = Phrase()


def aligned(french: str, english: str, links: str | None = None) -> Phrase:
    """The phrase of these words, with links such as "0-1 2?1".

    They hold word indices, French first; `-` is a sure link and `?` a possible one. The default
    is a sure link between each French and each English word.
    """
    if not french and not english:
        return EMPTY
    here = tuple(map(PhraseWord, french.split()))
    there = tuple(map(PhraseWord, english.split()))
    if links is None:
        return Phrase(here, there, tuple((f, e) for f in here for e in there))
    sure, possible = _parse(links)
    return Phrase(
        here,
        there,
        tuple((here[f], there[e]) for f, e in sure),
        tuple((here[f], there[e]) for f, e in possible),
    )


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
    french = [part for part in french if part is not EMPTY]
    english = [part for part in english if part is not EMPTY]
    parts = {id(part): part for part in (*french, *english)}.values()
    return Phrase(
        tuple(word for part in french for word in part.french),
        tuple(word for part in english for word in part.english),
        tuple(link for part in parts for link in part.sure),
        (
            *(link for part in parts for link in part.possible),
            *((f, e) for here, there in possible for f in here.french for e in there.english),
        ),
    )


@cache
def _parse(links: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The sure and the possible links."""
    both: dict[str, list[tuple[int, int]]] = {"-": [], "?": []}
    for link in links.split():
        mark = "-" if "-" in link else "?"
        french, english = link.split(mark)
        both[mark].append((int(french), int(english)))
    return both["-"], both["?"]
