"""Word alignments in the Pharaoh format: lines such as `0-0 1-2`, source word first."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from regard.errors import CorpusError
from regard.settings import abbreviate
from regard.types import GoldAlignment, Link

LINK = re.compile(r"([0-9]{1,9})([-p?])([0-9]{1,9})")


def read_pharaoh(
    lines: Iterable[str], *, counted_from: Literal[0, 1] = 0, name: str = "alignment"
) -> Iterator[GoldAlignment]:
    """One alignment for each line, its links counted from 0; `name` is the file's name in errors.

    `1-2` is a sure link, `1p2` or `1?2` a possible one; a link written both ways is sure.
    """
    for number, line in enumerate(lines, start=1):
        sure, possible = set(), set()
        for word in line.split():
            match = LINK.fullmatch(word)
            if match is None:
                raise CorpusError(
                    f"{name}:{number}: {abbreviate(repr(word))} is not a link; "
                    "write source-target, as in 0-0 or, if only possible, 0p0"
                )
            link = int(match[1]) - counted_from, int(match[3]) - counted_from
            if min(link) < 0:
                raise CorpusError(
                    f"{name}:{number}: {word!r} in a file whose words are counted from 1; "
                    "is it counted from 0?"
                )
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        yield GoldAlignment(frozenset(sure), frozenset(possible))


def flip_gold(alignment: GoldAlignment) -> GoldAlignment:
    """The alignment of the other direction: target before source."""
    return GoldAlignment(*(frozenset((t, s) for s, t in links) for links in alignment))


def check_gold(
    gold: Sequence[GoldAlignment], sizes: Iterable[tuple[int, int]], *, name: str = "alignment"
) -> None:
    """Raise if a link is out of range; `sizes` are the numbers of source and target words."""
    for number, (alignment, size) in enumerate(zip(gold, sizes, strict=False), start=1):
        for link in sorted(alignment.possible):
            if link[0] >= size[0] or link[1] >= size[1]:
                raise CorpusError(
                    f"{name}:{number}: links word {link[0]} of the source, counted from 0, with "
                    f"word {link[1]} of the target, but there are {size[0]} and {size[1]}; are its "
                    "words counted from 1, or is its source our target?"
                )


def format_pharaoh(alignment: GoldAlignment) -> str:
    """The line of an alignment, sorted by source word."""
    return " ".join(
        f"{source}{'-' if (source, target) in alignment.sure else 'p'}{target}"
        for source, target in sorted(alignment.sure | alignment.possible)
    )


def format_links(links: Iterable[Link]) -> str:
    """The line of predicted links, all of them sure."""
    return format_pharaoh(GoldAlignment(frozenset(links), frozenset()))
